// Messages in somebody else's name, names that are none, replays, plans of one's own.
#include <fmt/core.h>

#include "common/base/process.h"
#include "tests/attacks/intruder.h"

namespace dslide::forged_attacks {
namespace {

constexpr double kPerSecond = 200;

// Says all of it in each of the names. With keys this is refused; the roster must not change.
void SpeakFor(Strike& strike, const std::vector<Incarnation>& victims,
              const std::vector<Body>& bodies) {
  const Role role = strike.attack().as == As::kObserver ? Role::kObserver : Role::kWorker;
  Repeat(strike, {kPerSecond, "messages", role}, [&](Intruder& eve, uint64_t n) {
    eve.set_beats(false);
    eve.envelope().incarnation = victims[n % victims.size()];
    eve.Tell(bodies[n / victims.size() % bodies.size()]);
  });
}

std::vector<Incarnation> ServersOf(const Strike& strike) {
  std::vector<Incarnation> servers;
  for (const PlanServer& server : strike.target().servers) servers.push_back(server.incarnation);
  return servers;
}

CheckpointDone EvilShard() {
  CheckpointDone done;
  done.name = "step-000000000001";
  done.shard = "../../../tmp/evil";
  done.files = {{"../../../etc/passwd", 1, 1}};
  return done;
}

void ForWorkers(Strike& strike) {
  BatchDone done;
  done.samples = 32;
  SpeakFor(
      strike, strike.target().workers,
      {Leave(), Heartbeat(), done, ErrorReply{ErrorCode::kRefused, "eve"}, LeaseRequest(), Join()});
}

void ForServers(Strike& strike) {
  Heartbeat beat;
  beat.load = LoadReport();
  SpeakFor(strike, ServersOf(strike),
           {Leave(), beat, EvilShard(), Ready{1, 0, 0, 0, 0, 0}, StepsCommitted{1u << 30},
            ErrorReply{ErrorCode::kRefused, "eve"}, Join()});
}

void LeaveForWorkers(Strike& strike) { SpeakFor(strike, strike.target().workers, {Leave()}); }
void LeaveForServer(Strike& strike) { SpeakFor(strike, {ServersOf(strike).at(0)}, {Leave()}); }
void ErrorForServer(Strike& strike) {
  SpeakFor(strike, {ServersOf(strike).at(0)}, {ErrorReply{ErrorCode::kRefused, "eve says no"}});
}
void SavedForServer(Strike& strike) {
  Repeat(strike, {.per_second = kPerSecond, .what = "messages", .listens_every = 0},
         [&](Intruder& eve, uint64_t n) {
           eve.set_beats(false);
           eve.envelope().incarnation = ServersOf(strike).at(0);
           CheckpointDone done = EvilShard();
           done.error = n % 2 == 0 ? "" : "eve's disk is full";
           done.name = fmt::format("step-{:012}", n * 3);
           eve.Tell(done);
         });
}

// To servers: a worker's sequence numbers are used up before it comes to them.
void UseUpSequences(Strike& strike) {
  EmbedRequest request;
  request.features.EndRow();
  const std::vector<Incarnation>& workers = strike.target().workers;
  Repeat(strike, {2 * kPerSecond, "requests"}, [&](Intruder& eve, uint64_t n) {
    eve.set_beats(false);
    eve.envelope().incarnation = workers[n % workers.size()];
    eve.envelope().sequence = (~uint64_t{0} >> 1) + n;
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, request);
  });
}

// What was said in another run, or in an earlier life.
void Replays(Strike& strike) {
  EmbedRequest request;
  request.features.EndRow();
  Envelope first;
  Repeat(strike, {kPerSecond, "messages"}, [&](Intruder& eve, uint64_t n) {
    if (n == 0) first = eve.envelope();
    eve.envelope().run = n % 2 == 0 ? RunId{strike.random().Next()} : first.run;
    eve.envelope().incarnation = n % 3 == 0 ? first.incarnation : strike.Draw();
    eve.Tell(n % 5 == 0 ? Body(BatchDone()) : Body(LeaseRequest()));
    eve.TellServer(n % 2, request);
  });
}

// Members that ask for names, each in a life of its own.
void JoinByNames(Strike& strike, const std::vector<std::string>& names, double per_second) {
  Repeat(strike,
         {.per_second = per_second, .what = "members", .role = std::nullopt, .listens_every = 1},
         [&](Intruder& eve, uint64_t n) {
           Join join;
           join.role = strike.attack().as == As::kObserver ? Role::kObserver : Role::kWorker;
           join.name = names[n % names.size()];
           eve.envelope().incarnation = strike.Draw();
           eve.Tell(join);
         });
}

void SquatNames(Strike& strike) {
  JoinByNames(strike, {"worker-1", "worker-2", "server-1", "server-2", "scheduler", "", "-"}, 50);
}
void LongNames(Strike& strike) { JoinByNames(strike, {std::string((1 << 20) - 10, 'e')}, 10); }
void ForeignNames(Strike& strike) {
  JoinByNames(
      strike,
      {"a\nINFO all is well", "\x1b[2J\x1b[31mred", std::string("nul\0nul", 7), "\xff\xfe\xfa",
       "../../../tmp/evil", "<script>alert(1)</script>", "{\"a\":", "%s%n%s%n", "$(reboot)"},
      20);
}

void PlanOfOnesOwn(Strike& strike) {
  Repeat(strike, {kPerSecond, "plans"}, [](Intruder& eve, uint64_t n) {
    Plan plan = eve.plan().value();
    plan.version = n % 2 == 0 ? plan.version + 1 : 4'000'000'000u;
    plan.generation = n % 3 == 0 ? plan.generation : plan.version;
    for (PlanServer& server : plan.servers) server.address = "tcp://127.0.0.1:9";
    plan.restore = "/tmp/evil";
    eve.Tell(plan);
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, plan);
  });
}

// Requests by plans that do not exist yet wait at the servers.
void FuturePlans(Strike& strike) {
  EmbedRequest request;
  request.features.EndRow();
  Repeat(strike, {4 * kPerSecond, "requests"}, [&](Intruder& eve, uint64_t) {
    eve.envelope().plan_version =
        eve.plan()->version + 1 + static_cast<uint32_t>(strike.random().Below(1u << 30));
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, request);
    eve.Tell(LeaseRequest());
  });
}

void Access(Strike& strike) {
  AccessList list;
  if (strike.keys()) list.keys.push_back({TextOf(strike.keys()->public_key), KeyRole::kScheduler});
  Repeat(strike, {kPerSecond, "lists"}, [&](Intruder& eve, uint64_t n) {
    eve.Tell(n % 2 == 0 ? list : AccessList());
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, list);
  });
}

}  // namespace

std::vector<Attack> All() {
  return {
      {"forged.for-workers", As::kWorker, "Leave, Heartbeat, BatchDone... in honest workers' names",
       ForWorkers, on::kQuick},
      {"forged.for-servers", As::kWorker, "Leave, CheckpointDone, ErrorReply... in servers' names",
       ForServers, on::kQuick},
      {"forged.sequences-used-up", As::kWorker, "an honest worker's sequence numbers, at servers",
       UseUpSequences},
      {"forged.replays", As::kWorker, "other runs' ids, earlier and other lives", Replays},
      {"forged.names-squatted", As::kWorker, "members that ask for the honest ones' names",
       SquatNames},
      {"forged.names-1mb", As::kWorker, "members with names of 1 MB", LongNames},
      {"forged.names-foreign", As::kObserver,
       "names with newlines, escapes, NUL, no UTF-8, paths, scripts", ForeignNames, on::kQuick},
      {"forged.plan", As::kWorker, "slot plans by a worker, to servers and scheduler",
       PlanOfOnesOwn},
      {"forged.future-plans", As::kWorker, "requests by plans of the far future", FuturePlans},
      {"forged.access-list", As::kWorker, "AccessLists by a worker", Access},
      {"forged.plain-leave-workers", As::kAnyone, "Leave in the workers' names", LeaveForWorkers,
       on::kAlonePlain},
      {"forged.plain-leave-server", As::kAnyone, "Leave in a server's name", LeaveForServer,
       on::kAlonePlain},
      {"forged.plain-error", As::kAnyone, "ErrorReply in a server's name", ErrorForServer,
       on::kAlonePlain},
      {"forged.plain-saved", As::kAnyone, "CheckpointDone with shard ../../../tmp/evil",
       SavedForServer, on::kAlonePlain},
      {"forged.plain-sequences", As::kAnyone, "an honest worker's sequence numbers, at servers",
       UseUpSequences, on::kAlonePlain},
  };
}

}  // namespace dslide::forged_attacks
