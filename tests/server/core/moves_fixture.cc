#include "tests/server/core/moves_fixture.h"

#include <algorithm>

namespace dslide {

MovesFixture::MovesFixture() {
  config.cluster.balance = Balance::kOff;  // within the server
  config.cluster.drain_s = 20;
  Load();
}

Plan MovesFixture::Next(const std::vector<uint32_t>& own) {
  Plan next = plan;
  next.version = plan.version + 1;
  next.generation = 1;
  std::fill(next.slot_owner.begin(), next.slot_owner.end(), uint16_t{0});
  for (const uint32_t slot : own) next.slot_owner[slot] = 1;
  return next;
}

Plan MovesFixture::Unseat(Plan next) {
  next.servers.pop_back();
  std::fill(next.slot_owner.begin(), next.slot_owner.end(), uint16_t{0});
  return next;
}

SortedActions MovesFixture::SwitchPlan(const Plan& next) {
  plan = next;
  version = next.version;
  return Scheduler(next);
}

SortedActions MovesFixture::Do(const SortedActions& effects) {
  SortedActions all;
  std::vector<ServerWork> work = effects.work;
  for (size_t i = 0; i < work.size(); ++i) {
    if (!work[i].slot_job()) continue;
    jobs.push_back(*work[i].slot_job());
    (void)core.HandleOutcome({work[i].job_id, 0, AnswerTo(*work[i].slot_job())}, 1000 * now);
    auto more = core.HandleOutcome({work[i].job_id, 1, Attached{}}, 1000 * now);
    work.insert(work.end(), more.work.begin(), more.work.end());
    Append(std::move(more), &all);
  }
  return all;
}

Attached MovesFixture::AnswerTo(const SlotJob& job) {
  return {job.kind == SlotJob::Kind::kAttach ? job.slots : std::vector<SlotId>()};
}

void MovesFixture::Append(SortedActions more, SortedActions* all) {
  const auto add = [](auto& from, auto* to) { to->insert(to->end(), from.begin(), from.end()); };
  add(more.to_scheduler, &all->to_scheduler);
  add(more.to_workers, &all->to_workers);
  add(more.to_servers, &all->to_servers);
  add(more.work, &all->work);
  if (more.exit) all->exit = more.exit;
  if (more.unload) all->unload = true;
  if (more.load) all->load = more.load;
}

std::vector<ServerWork> MovesFixture::OwnPulls(const SortedActions& effects) {
  std::vector<ServerWork> found;
  for (const ServerWork& work : effects.work) {
    if (work.request() && std::holds_alternative<SlotPull>(*work.request())) found.push_back(work);
  }
  return found;
}

SortedActions MovesFixture::Answer(const Message& pull, Body body) {
  return core.HandleServer({{kRun, kOther, ++sequence, pull.envelope.sequence, version}, body},
                           1000 * now);
}

SlotRows MovesFixture::Part(const Message& pull, bool last, size_t rows) {
  const auto& asked = std::get<SlotPull>(pull.body);
  SlotRows part;
  part.slot = asked.slot;
  part.part = asked.part;
  for (uint32_t i = 0; i < rows; ++i) {
    part.rows.push_back(i);
    part.ends.push_back(10 * (i + 1));
  }
  part.bytes.resize(10 * rows);
  part.left = last ? 0 : 1;
  part.last = last;
  return part;
}

SortedActions MovesFixture::PullFrom(SlotPull pull, uint32_t plan_version, Incarnation who) {
  return core.HandleWorker("peer", {{kRun, who, ++sequence, 0, plan_version}, pull}, 1000 * now);
}

SortedActions MovesFixture::Release(uint32_t slot, uint32_t plan_version, Incarnation who) {
  return PullFrom({slot, 0, false, 0, true}, plan_version, who);
}

std::vector<SlotJob> MovesFixture::JobsOf(SlotJob::Kind kind) const {
  std::vector<SlotJob> found;
  for (const SlotJob& job : jobs) {
    if (job.kind == kind) found.push_back(job);
  }
  return found;
}

void MovesFixture::CopyColdRows() {
  auto effects = Scheduler(MoveSlots{1, {2, 3}, {0, 0}, 0});
  (void)Do(effects);
  std::vector<Message> pulls = PullsOf(effects);
  REQUIRE(pulls.size() == 2);
  for (const Message& pull : pulls) (void)Do(Answer(pull, Part(pull, false, 2)));
  pulls = PullsOf(Tick(SlotFetcher::kWatchMs));
  REQUIRE(pulls.size() == 2);
  for (const Message& pull : pulls) {
    effects = Answer(pull, Part(pull, false, 0));
    last_ready = Sent<MoveReady>(effects);
  }
  now = 0;
  REQUIRE(last_ready.size() == 1);
}

SortedActions MovesFixture::TakeOver(const Plan& next) {
  auto effects = SwitchPlan(next);
  (void)Do(effects);
  const std::vector<Message> pulls = PullsOf(effects);
  REQUIRE(pulls.size() == 2);
  CHECK(Sent<Ready>(Do(Answer(pulls[0], Part(pulls[0], true)))).empty());
  return Do(Answer(pulls[1], Part(pulls[1], true)));
}

std::vector<Message> MovesFixture::PullsOf(const SortedActions& effects) {
  std::vector<Message> pulls;
  for (const auto& [server, message] : effects.to_servers) {
    CHECK(server.address == "a");
    pulls.push_back(message);
  }
  return pulls;
}

std::vector<Message> MovesFixture::Answers(const SortedActions& effects) const {
  std::vector<Message> answers;
  for (const auto& [peer, bytes] : effects.to_workers) answers.push_back(*Decode(*bytes));
  return answers;
}

}  // namespace dslide
