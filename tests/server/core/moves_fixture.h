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
  SortedActions SwitchPlan(const Plan& next);
  // The executors do what they are told; what the server does then, and so on.
  SortedActions Do(const SortedActions& effects);
  // The slots that come are with the first executor.
  static Attached AnswerTo(const SlotJob& job);
  static void Append(SortedActions more, SortedActions* all);
  // The pulls of the server's own slots, for its executors.
  static std::vector<ServerWork> OwnPulls(const SortedActions& effects);
  // The other server's answer to a pull.
  SortedActions Answer(const Message& pull, Body body);
  static SlotRows Part(const Message& pull, bool last, size_t rows = 1);
  // Another server's pull of a slot of this one.
  SortedActions PullFrom(SlotPull pull, uint32_t plan_version, Incarnation who = kOther);
  SortedActions Release(uint32_t slot, uint32_t plan_version, Incarnation who = kOther);
  std::vector<SlotJob> JobsOf(SlotJob::Kind kind) const;
  // Slots 2 and 3 are to come; all that rests of them is here.
  void CopyColdRows();
  // Switches to `next`, to which slots 2 and 3 come; they are copied.
  SortedActions TakeOver(const Plan& next);
  static std::vector<Message> PullsOf(const SortedActions& effects);
  std::vector<Message> Answers(const SortedActions& effects) const;

  std::vector<SlotJob> jobs;
  std::vector<Message> last_ready;
};

}  // namespace dslide
