// What every member should do: the part of SchedulerCore that hands the advisor its measures.
#include <algorithm>

#include "common/run/step.h"
#include "scheduler/core/scheduler_core.h"
#include "scheduler/members/planned_servers.h"

namespace dslide {

void SchedulerCore::ForgetTheGone() {
  const std::vector<Incarnation> planned = IncarnationsOf(plan_);
  std::set<Incarnation> servers(planned.begin(), planned.end());
  for (const Member* server : roster_.Of(Role::kServer)) servers.insert(server->incarnation);
  loads_.Keep(servers);
  balancer_.Keep(servers);
}

void SchedulerCore::Decide(int64_t now_ms) {
  if (!InPass() || !book_ || !advisor_.Due(roster_, now_ms)) return;
  const std::vector<Incarnation> planned = IncarnationsOf(plan_);
  const std::vector<bool> leaving = LeavingServers(plan_, roster_);
  Advisor::Measures measures;
  for (size_t i = 0; i < planned.size(); ++i) {
    measures.servers.push_back({plan_.servers[i].name, loads_.Capacity(planned[i]), leaving[i]});
  }
  measures.run.unit_batches = inputs_.config.train.unit_batches;
  measures.run.batches_left = book_->batches() - book_->done();
  measures.run.seconds_per_batch = loads_.SecondsPerBatch(planned, plan_.slot_owner);
  measures.leases = book_->OpenLeases();
  measures.bytes_per_batch =
      inputs_.config.train.batch * (work_.BytesSentPerSample() + work_.BytesReceivedPerSample());
  const auto seated = roster_.Seated();
  measures.servers_pause =
      !Settled() || std::any_of(seated.begin(), seated.end(),
                                [&](const Member* server) { return server->life.Suspect(now_ms); });
  measures.capacities_measured = loads_.CapacitiesMeasured(planned);
  advisor_.Decide(roster_, measures, now_ms, &out_);
  ForgetTheGone();
}

}  // namespace dslide
