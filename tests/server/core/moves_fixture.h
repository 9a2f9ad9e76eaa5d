// A ServerCore whose slots come and go, with what the others do.
#pragma once

#include <vector>

#include "tests/server/core/server_fixture.h"

namespace dslide {

// Server "server" (8) has slots 0 to 3, this one, "server-2", 4 to 7; two executors with two each.
struct MovesFixture : ServerFixture {
  static constexpr Incarnation kOther{8};

  MovesFixture();

  // The next plan of the generation, with these slots of this server.
  Plan Next(const std::vector<uint32_t>& own);
  // A plan without this server, which is its second one.
  static Plan Unseat(Plan next);
  Plan WithoutSelf() { return Unseat(Next({})); }
  ServerCore::Effects SwitchPlan(const Plan& next);
  // The executors do what they are told; what the server does then, and so on.
  ServerCore::Effects Do(const ServerCore::Effects& effects);
  // The slots that come are with the first executor.
  static Attached AnswerTo(const SlotJob& job);
  static void Append(ServerCore::Effects more, ServerCore::Effects* all);
  // The pulls of the server's own slots, for its executors.
  static std::vector<ServerWork> OwnPulls(const ServerCore::Effects& effects);
  // The other server's answer to a pull.
  ServerCore::Effects Answer(const Message& pull, Body body);
  static SlotRows Part(const Message& pull, bool last, size_t rows = 1);
  // Another server's pull of a slot of this one.
  ServerCore::Effects PullFrom(SlotPull pull, uint32_t plan_version, Incarnation who = kOther);
  ServerCore::Effects Release(uint32_t slot, uint32_t plan_version, Incarnation who = kOther);
  std::vector<SlotJob> JobsOf(SlotJob::Kind kind) const;
  // Slots 2 and 3 are to come; all that rests of them is here.
  void CopyColdRows();
  // Switches to `next`, to which slots 2 and 3 come; they are copied.
  ServerCore::Effects TakeOver(const Plan& next);
  static std::vector<Message> PullsOf(const ServerCore::Effects& effects);
  std::vector<Message> Answers(const ServerCore::Effects& effects) const;

  std::vector<SlotJob> jobs;
  std::vector<Message> last_ready;
};

}  // namespace dslide
