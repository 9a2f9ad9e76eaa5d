// A server whose slots come and go: copies, flips from plan to plan, how it lets go and leaves.
#include <algorithm>

#include "tests/server/server_fixture.h"

namespace dslide {
namespace {

constexpr Incarnation kSelf = ServerFixture::kSelf, kOther{8}, kWorker = ServerFixture::kWorker;
constexpr RunId kRun = ServerFixture::kRun;

// Server "server" (8) has slots 0 to 3, this one, "server-2", 4 to 7; two executors with two each.
struct Moves : ServerFixture {
  Moves() {
    config.cluster.balance = Balance::kOff;  // within the server
    config.cluster.drain_s = 20;
    Load();
  }

  // The next plan of the generation, with these slots of this server.
  Plan Next(const std::vector<uint32_t>& own) {
    Plan next = plan;
    next.version = plan.version + 1;
    next.generation = 1;
    std::fill(next.slot_owner.begin(), next.slot_owner.end(), uint16_t{0});
    for (const uint32_t slot : own) next.slot_owner[slot] = 1;
    return next;
  }
  ServerCore::Effects Flip(const Plan& next) {
    plan = next;
    version = next.version;
    return Scheduler(next);
  }
  // The executors do what they are told; what the server does then, and so on.
  ServerCore::Effects Do(const ServerCore::Effects& effects) {
    ServerCore::Effects all;
    std::vector<ServerCore::Work> work = effects.work;
    for (size_t i = 0; i < work.size(); ++i) {
      if (!work[i].job) continue;
      jobs.push_back(*work[i].job);
      (void)core.HandleOutcome({work[i].ticket, 0, Ack{}}, 1000 * now);
      auto more = core.HandleOutcome({work[i].ticket, 1, Ack{}}, 1000 * now);
      work.insert(work.end(), more.work.begin(), more.work.end());
      Append(std::move(more), &all);
    }
    return all;
  }
  static void Append(ServerCore::Effects more, ServerCore::Effects* all) {
    const auto add = [](auto& from, auto* to) { to->insert(to->end(), from.begin(), from.end()); };
    add(more.to_scheduler, &all->to_scheduler);
    add(more.to_workers, &all->to_workers);
    add(more.to_servers, &all->to_servers);
    add(more.work, &all->work);
    if (more.exit) all->exit = more.exit;
    if (more.unload) all->unload = true;
    if (more.load) all->load = more.load;
  }
  // The other server's answer to a pull.
  ServerCore::Effects Answer(const Message& pull, Body body) {
    return core.HandleServer({{kRun, kOther, ++sequence, pull.envelope.sequence, version}, body},
                             1000 * now);
  }
  static SlotRows Part(const Message& pull, bool last, size_t rows = 1) {
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
  // Another server's pull of a slot of this one.
  ServerCore::Effects PullFrom(SlotPull pull, uint32_t plan_version, Incarnation who = kOther) {
    return core.HandleWorker("peer", {{kRun, who, ++sequence, 0, plan_version}, pull}, 1000 * now);
  }
  ServerCore::Effects Release(uint32_t slot, uint32_t plan_version, Incarnation who = kOther) {
    return PullFrom({slot, 0, false, 0, true}, plan_version, who);
  }
  std::vector<SlotJob> JobsOf(SlotJob::Kind kind) const {
    std::vector<SlotJob> found;
    for (const SlotJob& job : jobs) {
      if (job.kind == kind) found.push_back(job);
    }
    return found;
  }
  // Slots 2 and 3 are to come; all that rests of them is here.
  void CopyResting() {
    auto effects = Scheduler(MoveSlots{1, {2, 3}, {0, 0}, 0});
    (void)Do(effects);
    std::vector<Message> pulls = PullsOf(effects);
    REQUIRE(pulls.size() == 2);
    for (const Message& pull : pulls) (void)Do(Answer(pull, Part(pull, false, 2)));
    pulls = PullsOf(Tick(SlotIntake::kWatchMs));
    REQUIRE(pulls.size() == 2);
    for (const Message& pull : pulls) {
      effects = Answer(pull, Part(pull, false, 0));
      last_ready = Sent<MoveReady>(effects);
    }
    now = 0;
    REQUIRE(last_ready.size() == 1);
  }
  // Flips to `next`, to which slots 2 and 3 come; they are copied.
  ServerCore::Effects TakeOver(const Plan& next) {
    auto effects = Flip(next);
    (void)Do(effects);
    const std::vector<Message> pulls = PullsOf(effects);
    REQUIRE(pulls.size() == 2);
    CHECK(Sent<Ready>(Do(Answer(pulls[0], Part(pulls[0], true)))).empty());
    return Do(Answer(pulls[1], Part(pulls[1], true)));
  }
  static std::vector<Message> PullsOf(const ServerCore::Effects& effects) {
    std::vector<Message> pulls;
    for (const auto& [address, message] : effects.to_servers) {
      CHECK(address == "a");
      pulls.push_back(message);
    }
    return pulls;
  }
  std::vector<Message> Answers(const ServerCore::Effects& effects) const {
    std::vector<Message> answers;
    for (const auto& [peer, bytes] : effects.to_workers) answers.push_back(*Decode(bytes));
    return answers;
  }

  std::vector<SlotJob> jobs;
  std::vector<Message> last_ready;
};

const std::vector<uint32_t> kSix = {2, 3, 4, 5, 6, 7};

TEST_CASE_FIXTURE(Moves,
                  "moves: slots are copied from the server that has them, then it is ready") {
  const auto effects = Scheduler(MoveSlots{1, {3, 2}, {0, 0}, 0});
  (void)Do(effects);
  const auto reserved = JobsOf(SlotJob::Kind::kReserve);
  REQUIRE(reserved.size() == 2);
  CHECK(reserved[0].executor != reserved[1].executor);  // each gets one
  const auto pulls = PullsOf(effects);
  REQUIRE(pulls.size() == 2);
  CHECK(std::get<SlotPull>(pulls[0].body) == SlotPull{2, 0, true, SlotIntake::kPartBytes, false});
  CHECK(pulls[0].envelope.run == kRun);
  CHECK(pulls[0].envelope.incarnation == kSelf);
  CHECK(pulls[0].envelope.plan_version == 1);
  const auto put = Answer(pulls[0], Part(pulls[0], false, 3));
  REQUIRE(put.work.size() == 1);
  CHECK(put.work[0].job->kind == SlotJob::Kind::kPut);
  CHECK(put.work[0].job->rows->rows.size() == 3);
  CHECK(Sent<MoveReady>(put).empty());
  CHECK(Answer(pulls[1], Part(pulls[1], false, 0)).work.empty());
  const auto rest = PullsOf(Tick(SlotIntake::kWatchMs));
  REQUIRE(rest.size() == 2);
  CHECK(std::get<SlotPull>(rest[0].body).part == 1);
  CHECK(Sent<MoveReady>(Answer(rest[0], Part(rest[0], false, 0))).empty());
  const auto ready = Sent<MoveReady>(Answer(rest[1], Part(rest[1], false, 0)));
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].body == Body{MoveReady{1, 30, 10}});
  CHECK(Sent<MoveReady>(Tick(600)).empty());
  CHECK(Sent<MoveReady>(Scheduler(MoveSlots{1, {3, 2}, {0, 0}, 0})).size() == 1);  // lost
}

TEST_CASE_FIXTURE(Moves, "moves: orders that make no sense, or come too early, are not taken") {
  SUBCASE("its own slot") { CHECK(Scheduler(MoveSlots{1, {4}, {0}, 0}).to_servers.empty()); }
  SUBCASE("another owner") { CHECK(Scheduler(MoveSlots{1, {2}, {1}, 0}).to_servers.empty()); }
  SUBCASE("no such slot") { CHECK(Scheduler(MoveSlots{1, {8}, {0}, 0}).to_servers.empty()); }
  SUBCASE("another generation") {
    version = 2;
    CHECK(Scheduler(MoveSlots{1, {2}, {0}, 0}).to_servers.empty());
  }
  version = 1;
  CHECK(PullsOf(Scheduler(MoveSlots{2, {2}, {0}, 0})).size() == 1);
}

TEST_CASE_FIXTURE(Moves, "moves: a later order drops copies that it does not name, others go on") {
  (void)Do(Scheduler(MoveSlots{1, {2, 3}, {0, 0}, 0}));
  const auto effects = Scheduler(MoveSlots{2, {1, 3}, {0, 0}, 0});
  (void)Do(effects);
  REQUIRE(JobsOf(SlotJob::Kind::kDiscard).size() == 1);
  CHECK(JobsOf(SlotJob::Kind::kDiscard)[0].slots == std::vector<SlotId>{{2}});
  const auto pulls = PullsOf(effects);
  REQUIRE(pulls.size() == 1);
  CHECK(std::get<SlotPull>(pulls[0].body).slot == 1);
  const auto none = Scheduler(MoveSlots{3, {}, {}, 0});
  (void)Do(none);
  CHECK(JobsOf(SlotJob::Kind::kDiscard).back().slots == std::vector<SlotId>{{1}, {3}});
  CHECK(Tick(5000).to_servers.empty());
  CHECK(Answer(pulls[0], Part(pulls[0], false)).work.empty());
}

TEST_CASE_FIXTURE(Moves, "moves: the next plan flips, without a load; it is ready with its slots") {
  CopyResting();
  now = 5000;
  const auto flip = Flip(Next(kSix));
  CHECK_FALSE(flip.load);
  CHECK_FALSE(flip.unload);
  CHECK(Sent<Ready>(flip).empty());
  jobs.clear();
  (void)Do(flip);
  REQUIRE(jobs.size() == 1);  // the slots have their places already
  CHECK(jobs[0].kind == SlotJob::Kind::kFlip);
  CHECK(jobs[0].slots.empty());
  const auto pulls = PullsOf(flip);
  REQUIRE(pulls.size() == 2);
  for (const Message& pull : pulls) {
    CHECK_FALSE(std::get<SlotPull>(pull.body).resting);
    CHECK(std::get<SlotPull>(pull.body).part == 2);
    CHECK(pull.envelope.plan_version == 2);
  }
  CHECK(Sent<Ready>(Do(Answer(pulls[0], Part(pulls[0], true)))).empty());
  now = 5007;
  const auto there = Answer(pulls[1], Part(pulls[1], true));
  REQUIRE(there.work.size() == 2);  // the rows, then the slots
  CHECK(there.work[0].job->kind == SlotJob::Kind::kPut);
  CHECK(there.work[1].job->kind == SlotJob::Kind::kAttach);
  CHECK(there.work[1].job->slots == std::vector<SlotId>{{2}, {3}});
  CHECK(Sent<Ready>(there).empty());  // only when they are part of the model
  const auto attached = Do(there);
  const auto ready = Sent<Ready>(attached);
  REQUIRE(ready.size() == 1);
  const auto& figures = std::get<Ready>(ready[0].body);
  CHECK(figures.plan_version == 2);
  CHECK(figures.moved_bytes == 60);  // of each slot 20 while it rested, 10 behind
  CHECK(figures.slot_bytes == 40);   // a row came twice
  CHECK(figures.stall_us == 7000);
  CHECK(ready[0].envelope.plan_version == 2);
  CHECK(PullsOf(attached).size() == 2);
  CHECK(Sent<Ready>(Scheduler(plan)).size() == 1);  // if that was lost
}

TEST_CASE_FIXTURE(Moves, "moves: releases are repeated until they are acknowledged") {
  CopyResting();
  auto releases = PullsOf(TakeOver(Next(kSix)));
  REQUIRE(releases.size() == 2);
  for (const Message& release : releases) CHECK(std::get<SlotPull>(release.body).release);
  (void)Answer(releases[0], Ack{});
  CHECK(Tick(999).to_servers.empty());
  const auto again = PullsOf(Tick(1000));
  REQUIRE(again.size() == 1);
  CHECK(std::get<SlotPull>(again[0].body).slot == std::get<SlotPull>(releases[1].body).slot);
  SUBCASE("the answer comes") {
    (void)Answer(again[0], Ack{});
    CHECK(Tick(60'000).to_servers.empty());
  }
  SUBCASE("a refusal is no answer") {
    (void)Answer(again[0], ErrorReply{ErrorCode::kStalePlan, "3"});
    CHECK(Tick(2000).to_servers.size() == 1);
  }
  SUBCASE("its old owner is gone") {
    size_t sent = 0;
    for (int64_t at = 2000; at < 100'000; at += 500) {
      (void)Scheduler(HeartbeatReply{});
      sent += Tick(at).to_servers.size();
    }
    CHECK(sent < 40);
  }
  SUBCASE("the slot has gone back, and comes again: it must not be released before") {
    (void)Do(Flip(Next({4, 5, 6, 7})));
    (void)Do(Scheduler(MoveSlots{9, {2, 3}, {0, 0}, 0}));
    for (int64_t at = 2000; at < 6000; at += 500) {
      for (const Message& pull : PullsOf(Tick(at))) {
        CHECK_FALSE(std::get<SlotPull>(pull.body).release);
      }
    }
  }
}

TEST_CASE_FIXTURE(Moves, "moves: a plan without an order before copies everything then") {
  const auto flip = Flip(Next(kSix));
  (void)Do(flip);
  CHECK(JobsOf(SlotJob::Kind::kReserve).size() == 2);
  CHECK(JobsOf(SlotJob::Kind::kFlip).size() == 1);
  const auto pulls = PullsOf(flip);
  REQUIRE(pulls.size() == 2);
  for (const Message& pull : pulls) {
    CHECK(std::get<SlotPull>(pull.body).part == 0);
    CHECK_FALSE(std::get<SlotPull>(pull.body).resting);
  }
}

TEST_CASE_FIXTURE(Moves, "moves: a plan that gives what was copied to somebody else drops it") {
  CopyResting();
  const auto flip = Flip(Next({3, 4, 5, 6, 7}));
  (void)Do(flip);
  CHECK(JobsOf(SlotJob::Kind::kDiscard).at(0).slots == std::vector<SlotId>{{2}});
  CHECK(PullsOf(flip).size() == 1);
}

TEST_CASE_FIXTURE(Moves, "moves: requests by the newer plan wait until it is ready for it") {
  CopyResting();
  const TopKRequest top{Matrix(1, 4), 3, {}, {}};
  SUBCASE("they come before the plan") {
    const auto early = core.HandleWorker("peer", Request(7, top, 2), 0);
    CHECK(early.work.empty());
    CHECK(early.to_workers.empty());
    const auto ready = TakeOver(Next(kSix));
    const auto asked = std::count_if(ready.work.begin(), ready.work.end(),
                                     [](const auto& work) { return work.request != nullptr; });
    CHECK(asked == 1);
  }
  SUBCASE("they come before its slots") {
    const auto flip = Flip(Next(kSix));
    CHECK(core.HandleWorker("peer", Request(7, top, 2), 0).work.empty());
    CHECK(core.HandleWorker("peer", Request(7, top, 2), 0).work.empty());  // repeated
    (void)Do(flip);
    const auto pulls = PullsOf(flip);
    (void)Do(Answer(pulls[0], Part(pulls[0], true)));
    const auto ready = Do(Answer(pulls[1], Part(pulls[1], true)));
    const auto asked = std::count_if(ready.work.begin(), ready.work.end(),
                                     [](const auto& work) { return work.request != nullptr; });
    CHECK(asked == 1);
  }
  SUBCASE("too many of them") {
    for (uint64_t n = 1; n <= ServerCore::kMaxEarly; ++n) {
      CHECK(core.HandleWorker("peer", Request(n, top, 2), 0).to_workers.empty());
    }
    CHECK(Refusal(core.HandleWorker("peer", Request(9999, top, 2), 0)) == ErrorCode::kStalePlan);
  }
}

TEST_CASE_FIXTURE(Moves, "moves: requests by the older plan get the new one") {
  CopyResting();
  const auto flip = Flip(Next(kSix));
  (void)Do(flip);
  for (int ready = 0; ready < 2; ++ready) {
    const auto answers = Answers(core.HandleWorker("peer", Request(7), 0));
    REQUIRE(answers.size() == 2);
    CHECK(answers[0].body == Body{plan});
    CHECK(std::get<ErrorReply>(answers[1].body).code == ErrorCode::kStalePlan);
    CHECK(answers[1].envelope.reply_to == 7);
    for (const Message& pull : PullsOf(flip)) (void)Do(Answer(pull, Part(pull, true)));
  }
}

TEST_CASE_FIXTURE(Moves, "moves: slots that go are readable until their new owner lets go") {
  const auto flip = Flip(Next({6, 7}));
  const auto ready = Do(flip);
  REQUIRE(JobsOf(SlotJob::Kind::kFlip).size() == 1);
  CHECK(JobsOf(SlotJob::Kind::kFlip)[0].slots == std::vector<SlotId>{{4}, {5}});
  CHECK(Sent<Ready>(ready).size() == 1);  // nothing comes
  const auto pulled = PullFrom({4, 0, false, 1000, false}, 2);
  REQUIRE(pulled.work.size() == 1);
  CHECK(std::holds_alternative<SlotPull>(*pulled.work[0].request));
  (void)core.HandleOutcome({pulled.work[0].ticket, 0, Ack{}}, 0);
  SlotRows rows;
  rows.slot = 4;
  rows.last = true;
  const auto answer = Reply(core.HandleOutcome({pulled.work[0].ticket, 1, rows}, 0));
  CHECK(answer.body == Body{rows});
  // It lets go for nobody but its new owner, and of no slot that it has.
  jobs.clear();
  (void)Do(Release(6, 2));
  (void)Do(Release(4, 2, kWorker));
  (void)Do(Release(99, 2));
  CHECK(jobs.empty());
  CHECK(std::holds_alternative<Ack>(Answers(Release(4, 2)).at(0).body));
  CHECK(std::holds_alternative<Ack>(Answers(Release(4, 2)).at(0).body));  // again
  (void)Do(Release(5, 2));
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].kind == SlotJob::Kind::kRelease);
  CHECK(jobs[0].slots == std::vector<SlotId>{{5}});
}

TEST_CASE_FIXTURE(Moves, "moves: a pull that finds no executor with the slot is refused") {
  const auto pulled = PullFrom({1, 0, true, 1000, false}, 1);
  REQUIRE(pulled.work.size() == 1);
  (void)core.HandleOutcome({pulled.work[0].ticket, 0, Ack{}}, 0);
  CHECK(Refusal(core.HandleOutcome({pulled.work[0].ticket, 1, Ack{}}, 0)) == ErrorCode::kRefused);
  CHECK(Refusal(PullFrom({4, 0, true, 1000, false}, 1, {99})) == ErrorCode::kRefused);  // who?
}

TEST_CASE_FIXTURE(Moves, "moves: a pull while it flips is answered, so two may exchange slots") {
  const auto flip = Flip(Next({2, 3, 6, 7}));
  (void)Do(flip);
  CHECK(PullsOf(flip).size() == 2);
  CHECK(PullFrom({4, 0, false, 1000, false}, 2).work.size() == 1);
}

TEST_CASE_FIXTURE(Moves, "moves: a slot's new owner may let go after it was given on") {
  (void)Do(Flip(Next({6, 7})));
  Plan next = Next({6, 7});
  next.servers.push_back({"server-3", "c", {30}});
  next.slot_owner[4] = 2;  // server had slot 4 by now
  (void)Do(Flip(next));
  jobs.clear();
  SUBCASE("by its plan then") { (void)Do(Release(4, 2)); }
  SUBCASE("by the plan now") { (void)Do(Release(4, 3)); }
  SUBCASE("by one that has not come here yet") { (void)Do(Release(4, 4)); }
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].slots == std::vector<SlotId>{{4}});
}

TEST_CASE_FIXTURE(Moves, "moves: a slot that comes back is let go of first") {
  (void)Do(Flip(Next({6, 7})));
  jobs.clear();
  (void)Do(Scheduler(MoveSlots{5, {4}, {0}, 0}));
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].kind == SlotJob::Kind::kRelease);
  CHECK(jobs[1].kind == SlotJob::Kind::kReserve);
  CHECK(jobs[1].slots == std::vector<SlotId>{{4}});
}

Plan Without(const Plan& plan) {
  Plan next = plan;
  next.servers.pop_back();
  std::fill(next.slot_owner.begin(), next.slot_owner.end(), uint16_t{0});
  return next;
}

TEST_CASE_FIXTURE(Moves,
                  "moves: a server without a seat ends well once all its slots are others'") {
  auto effects = Do(Flip(Without(Next({}))));
  CHECK_FALSE(effects.exit);
  CHECK(Sent<Ready>(effects).empty());  // it is none of the plan
  CHECK(Refusal(core.HandleWorker("peer", Request(1, TopKRequest{}, 2), 0)) ==
        ErrorCode::kStalePlan);
  CHECK(PullFrom({4, 0, false, 1000, false}, 2).work.size() == 1);
  for (const uint32_t slot : {4, 5, 6}) {
    effects = Release(slot, 2);
    CHECK_FALSE(effects.exit);
  }
  SUBCASE("the last one is let go of") { effects = Release(7, 2); }
  SUBCASE("the others have gone back to a checkpoint") {
    version = 3;
    effects = Scheduler(Without(PlanOf(3, {30})));
  }
  SUBCASE("the scheduler fences it") {
    effects = Scheduler(ErrorReply{ErrorCode::kFenced, "begin a new life"});
  }
  REQUIRE(effects.exit);
  CHECK(effects.exit->ok());
}

TEST_CASE_FIXTURE(Moves, "moves: a signal does not end a server that others still copy from") {
  (void)Do(Flip(Without(Next({}))));
  CHECK_FALSE(core.RequestStop(1000).exit);
  CHECK_FALSE(Tick(1100).exit);
  CHECK_FALSE(Tick(20'999).exit);
  SUBCASE("until they have its slots") {
    for (const uint32_t slot : {4, 5, 6}) (void)Release(slot, 2);
    const auto exit = Release(7, 2).exit;
    REQUIRE(exit);
    CHECK(exit->ok());
  }
  SUBCASE("or for cluster.drain_s") { CHECK_FALSE(Tick(21'000).exit->ok()); }
}

TEST_CASE_FIXTURE(Moves, "moves: a plan that comes in the middle of a flip waits for its end") {
  CopyResting();
  const auto flip = Flip(Next(kSix));
  (void)Do(flip);
  const auto second = Flip(Next({2, 3, 4, 5}));
  CHECK(second.work.empty());
  CHECK(core.plan_version() == 2);
  const auto pulls = PullsOf(flip);
  // What the scheduler says by that plan holds.
  CHECK(Scheduler(DropBatches{kWorker}).work.size() == 1);
  (void)Do(Answer(pulls[0], Part(pulls[0], true)));
  jobs.clear();
  const auto done = Do(Answer(pulls[1], Part(pulls[1], true)));
  CHECK(core.plan_version() == 3);
  const auto ready = Sent<Ready>(done);
  REQUIRE(ready.size() == 2);
  CHECK(std::get<Ready>(ready[0].body).plan_version == 2);
  CHECK(std::get<Ready>(ready[1].body).plan_version == 3);
  CHECK(JobsOf(SlotJob::Kind::kFlip).at(0).slots == std::vector<SlotId>{{6}, {7}});
}

TEST_CASE_FIXTURE(Moves, "moves: a plan that comes while a checkpoint is written waits for it") {
  const auto save = Scheduler(CheckpointRequest{"step-1", "/c/step-1", 0, {}}).save;
  REQUIRE(save);
  CHECK(save->slots == std::vector<SlotId>{{4}, {5}, {6}, {7}});
  const auto flip = Flip(Next({6, 7}));
  CHECK(flip.work.empty());
  CHECK(core.plan_version() == 1);
  CHECK(core.HandleWorker("peer", Request(7, TopKRequest{}, 2), 0).to_workers.empty());  // waits
  CHECK(Scheduler(MoveSlots{4, {2}, {0}, 0}).to_servers.empty());
  const auto saved = core.HandleSaved(save->ticket, {}, 0);
  CHECK(Sent<CheckpointDone>(saved).at(0).envelope.plan_version == 1);
  CHECK(core.plan_version() == 2);
  CHECK(Sent<Ready>(Do(saved)).size() == 1);
  // The next one is without the slots that went.
  const auto next = Scheduler(CheckpointRequest{"step-2", "/c/step-2", 0, {}}).save;
  REQUIRE(next);
  CHECK(next->shard == "shard-2-1");
  CHECK(next->slots == std::vector<SlotId>{{6}, {7}});
}

TEST_CASE_FIXTURE(Moves, "moves: no checkpoint begins in the middle of a flip") {
  CopyResting();
  (void)Do(Flip(Next(kSix)));
  const auto asked = Scheduler(CheckpointRequest{"step-1", "/c/step-1", 0, {}});
  CHECK_FALSE(asked.save);
  CHECK(asked.to_scheduler.empty());  // the scheduler asks again
}

TEST_CASE_FIXTURE(Moves, "moves: a plan of another generation drops copies and flips") {
  CopyResting();
  SUBCASE("while it copies") {}
  SUBCASE("while it flips") {
    (void)Do(Flip(Next(kSix)));
    (void)core.HandleWorker("peer", Request(7, TopKRequest{}, 2), 0);
  }
  SUBCASE("while its slots are let go of") { (void)Do(Flip(Next({6}))); }
  version = 5;
  const auto effects = Scheduler(PlanOf(5, kSelf));
  REQUIRE(effects.load);
  CHECK(effects.load->slots[0] == std::vector<SlotId>{{4}, {5}});
  CHECK(effects.to_servers.empty());
  CHECK(Tick(500).to_servers.empty());
  const auto ready = Loaded(*effects.load);
  CHECK(Sent<Ready>(ready).size() == 1);
  CHECK(ready.work.empty());  // what waited was for another generation
  jobs.clear();
  (void)Do(Release(4, 5));
  CHECK(jobs.empty());
}

TEST_CASE_FIXTURE(Moves, "moves: a slot that cannot be taken begins a new life") {
  const auto effects = Scheduler(MoveSlots{1, {2}, {0}, 0});
  (void)Do(effects);
  const auto pull = PullsOf(effects).at(0);
  const auto put = Answer(pull, Part(pull, false));
  REQUIRE(put.work.size() == 1);
  (void)core.HandleOutcome({put.work[0].ticket, 0, Ack{}}, 0);
  const ErrorReply error{ErrorCode::kRefused, "part 0 of slot 2 has a row of another model"};
  const auto failed = core.HandleOutcome({put.work[0].ticket, 1, error}, 0);
  CHECK(failed.unload);
  CHECK_FALSE(failed.exit);
  CHECK(core.incarnation() != kSelf);
  CHECK(std::get<Join>(Sent<Join>(failed).at(0).body).plan_version == 0);
}

TEST_CASE_FIXTURE(Moves, "moves: with a refusal the copy begins again") {
  const auto pull = PullsOf(Scheduler(MoveSlots{1, {2}, {0}, 0})).at(0);
  CHECK(Answer(pull, ErrorReply{ErrorCode::kRefused, "overloaded"}).to_servers.empty());
  const auto again = PullsOf(Tick(100));
  REQUIRE(again.size() == 1);
  CHECK(std::get<SlotPull>(again[0].body).part == 0);
  // An answer to the first request is of another copy.
  CHECK(Answer(pull, Part(pull, false)).work.empty());
  CHECK(Answer(again[0], Part(again[0], false)).work.size() == 1);
}

TEST_CASE_FIXTURE(Moves, "moves: a new life of the scheduler numbers its moves anew") {
  CopyResting();
  const auto of_new_life = [&](Body body) {
    return core.HandleScheduler({{kRun, {10}, ++sequence, 0, version}, std::move(body)}, now);
  };
  (void)of_new_life(HeartbeatReply{});
  const auto effects = of_new_life(MoveSlots{1, {1}, {0}, 0});
  (void)Do(effects);
  CHECK(JobsOf(SlotJob::Kind::kDiscard).at(0).slots == std::vector<SlotId>{{2}, {3}});
  REQUIRE(PullsOf(effects).size() == 1);
  CHECK(std::get<SlotPull>(PullsOf(effects)[0].body).slot == 1);
}

TEST_CASE_FIXTURE(Moves, "moves: a scheduler that does not know it is told what it holds") {
  const auto told = [&] {
    now += 300;
    const auto joins = Sent<Join>(Scheduler(ErrorReply{ErrorCode::kWrongRun, "who"}));
    REQUIRE(joins.size() == 1);
    return std::get<Join>(joins[0].body).plan_version;
  };
  CopyResting();
  CHECK(told() == 1);
  const auto flip = Flip(Next(kSix));
  (void)Do(flip);
  CHECK(told() == 1);  // its slots are still on their way
  CHECK(Scheduler(plan).to_scheduler.empty());
  const auto pulls = PullsOf(flip);
  (void)Do(Answer(pulls[0], Part(pulls[0], true)));
  CHECK(Sent<Ready>(Do(Answer(pulls[1], Part(pulls[1], true)))).size() == 1);
  CHECK(told() == 2);
  (void)Do(Flip(Without(Next({}))));
  CHECK(told() == 3);  // others may copy from it
}

TEST_CASE_FIXTURE(ServerFixture, "moves: a server that joins a generation has no slots at first") {
  (void)core.Start(0);
  (void)JoinAs("server-2");
  plan = PlanOf(3, kSelf);
  plan.generation = 1;
  version = 3;
  SUBCASE("executors without slots") {
    std::fill(plan.slot_owner.begin(), plan.slot_owner.end(), uint16_t{0});
    const auto load = Scheduler(plan).load;
    REQUIRE(load);
    CHECK(load->restore.empty());  // nothing to read
    REQUIRE(load->slots.size() == 2);
    for (const auto& slots : load->slots) CHECK(slots.empty());
    CHECK(std::get<Ready>(Sent<Ready>(Loaded(*load)).at(0).body).plan_version == 3);
    CHECK(Scheduler(MoveSlots{1, {2}, {0}, 0}).to_servers.size() == 1);
  }
  SUBCASE("slots that it must have had are lost") {
    const auto effects = Scheduler(plan);
    CHECK_FALSE(effects.load);
    CHECK(effects.unload);
    CHECK(core.incarnation() != kSelf);
    CHECK(Sent<Join>(effects).size() == 1);
  }
}

struct Stopping : Moves {
  Stopping() {
    now = 1000;
    const auto asked = core.RequestStop(now);
    CHECK_FALSE(asked.exit);
    const auto drains = Sent<DrainServer>(asked);
    REQUIRE(drains.size() == 1);
    CHECK(std::get<DrainServer>(drains[0].body).name == "server-2");
    drain = drains[0].envelope.sequence;
    CHECK(Sent<CheckpointNow>(asked).empty());
  }
  uint64_t drain = 0;
};

TEST_CASE_FIXTURE(Stopping, "moves: a signal hands the slots over first") {
  (void)Scheduler(Ack{}, drain);
  CHECK(Sent<DrainServer>(Tick(2999)).empty());
  CHECK(Sent<DrainServer>(Tick(3000)).size() == 1);  // to a new life of the scheduler, it may be
  CHECK(Sent<DrainServer>(Tick(4999)).empty());
  (void)Do(Flip(Without(Next({}))));
  CHECK(Sent<DrainServer>(Tick(10'000)).empty());
  for (const uint32_t slot : {4, 5, 6}) CHECK_FALSE(Release(slot, 2).exit);
  const auto exit = Release(7, 2).exit;
  REQUIRE(exit);
  CHECK(exit->ok());
}

TEST_CASE_FIXTURE(Stopping, "moves: if nobody can take them a checkpoint is asked for") {
  const auto refused =
      Scheduler(ErrorReply{ErrorCode::kRefused, "server-2 is the last server"}, drain);
  CHECK_FALSE(refused.exit);
  const auto asked = Sent<CheckpointNow>(refused);
  REQUIRE(asked.size() == 1);
  CHECK(Sent<DrainServer>(Tick(5000)).empty());
  const auto exit = Scheduler(CheckpointDone{}, asked[0].envelope.sequence).exit;
  REQUIRE(exit);
  CHECK(exit->error().kind == ErrorKind::kPreempted);
}

TEST_CASE_FIXTURE(Stopping,
                  "moves: it hands over for cluster.drain_s, then asks for a checkpoint") {
  CHECK(Sent<CheckpointNow>(Tick(20'999)).empty());
  CHECK(Sent<CheckpointNow>(Tick(21'000)).size() == 1);
  CHECK(Sent<CheckpointNow>(Tick(30'000)).empty());
  CHECK_FALSE(Tick(40'999).exit);
  CHECK(Tick(41'000).exit->error().kind == ErrorKind::kTryLater);
}

TEST_CASE_FIXTURE(Stopping, "moves: a second signal ends it at once") {
  CHECK(core.RequestStop(2000).exit->error().kind == ErrorKind::kTryLater);
}

}  // namespace
}  // namespace dslide
