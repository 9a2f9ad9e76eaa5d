#include "scheduler/members/planned_servers.h"

namespace dslide {

std::vector<Incarnation> IncarnationsOf(const Plan& plan) {
  std::vector<Incarnation> servers;
  for (const PlanServer& server : plan.servers) servers.push_back(server.incarnation);
  return servers;
}

std::vector<bool> LeavingServers(const Plan& plan, const Roster& roster) {
  std::vector<bool> leaving;
  for (const PlanServer& server : plan.servers) {
    const Member* member = roster.Find(server.incarnation);
    leaving.push_back(member != nullptr && member->draining);
  }
  return leaving;
}

}  // namespace dslide
