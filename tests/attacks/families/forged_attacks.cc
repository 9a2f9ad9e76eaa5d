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
  Intruder eve(&strike);
  if (!eve.Join(strike.attack().as == As::kObserver ? Role::kObserver : Role::kWorker)) {
    return strike.Say("cannot join: " + eve.why());
  }
  eve.set_beats(false);
  uint64_t sent = 0;
  while (strike.Pace(kPerSecond)) {
    eve.envelope().incarnation = victims[sent % victims.size()];
    eve.Tell(bodies[sent / victims.size() % bodies.size()]);
    if (++sent % 20 == 0) eve.Receive();
  }
  strike.Say(fmt::format("{} messages in {} names", sent, victims.size()));
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
  Intruder eve(&strike);
  if (!eve.Join(Role::kWorker)) return strike.Say("cannot join: " + eve.why());
  eve.envelope().incarnation = ServersOf(strike).at(0);
  eve.set_beats(false);
  uint64_t sent = 0;
  while (strike.Pace(kPerSecond)) {
    CheckpointDone done = EvilShard();
    done.error = sent % 2 == 0 ? "" : "eve's disk is full";
    done.name = fmt::format("step-{:012}", sent * 3);
    eve.Tell(done);
    sent++;
  }
  strike.Say(fmt::format("{} messages", sent));
}

// To servers: a worker's sequence numbers are used up before it comes to them.
void UseUpSequences(Strike& strike) {
  Intruder eve(&strike);
  if (!eve.Join(Role::kWorker)) return strike.Say("cannot join: " + eve.why());
  eve.set_beats(false);
  EmbedRequest request;
  request.features.EndRow();
  uint64_t sent = 0;
  while (strike.Pace(2 * kPerSecond)) {
    eve.envelope().incarnation = strike.target().workers[sent % strike.target().workers.size()];
    eve.envelope().sequence = (~uint64_t{0} >> 1) + sent;
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, request);
    if (++sent % 20 == 0) eve.Receive();
  }
  strike.Say(fmt::format("{} requests", sent));
}

// What was said in another run, or in an earlier life.
void Replays(Strike& strike) {
  Intruder eve(&strike);
  if (!eve.Join(Role::kWorker)) return strike.Say("cannot join: " + eve.why());
  const RunId run = eve.envelope().run;
  const Incarnation life = eve.envelope().incarnation;
  uint64_t sent = 0;
  EmbedRequest request;
  request.features.EndRow();
  while (strike.Pace(kPerSecond)) {
    eve.envelope().run = sent % 2 == 0 ? RunId{strike.random().Next()} : run;
    eve.envelope().incarnation = sent % 3 == 0 ? life : strike.Draw();
    eve.Tell(sent % 5 == 0 ? Body(BatchDone()) : Body(LeaseRequest()));
    eve.TellServer(sent % 2, request);
    if (++sent % 20 == 0) eve.Receive();
  }
  strike.Say(fmt::format("{} messages", sent));
}

// Members that ask for names, each in a life of its own.
void JoinByNames(Strike& strike, const std::vector<std::string>& names, double per_second) {
  Intruder eve(&strike);
  uint64_t sent = 0;
  while (strike.Pace(per_second)) {
    Join join;
    join.role = strike.attack().as == As::kObserver ? Role::kObserver : Role::kWorker;
    join.name = names[sent % names.size()];
    eve.envelope().incarnation = strike.Draw();
    eve.Tell(join);
    eve.Receive();
    eve.inbox().clear();
    sent++;
  }
  strike.Say(fmt::format("{} members", sent));
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
  Intruder eve(&strike);
  if (!eve.Join(Role::kWorker) || !eve.plan()) return strike.Say("cannot join: " + eve.why());
  uint64_t sent = 0;
  while (strike.Pace(kPerSecond)) {
    Plan plan = *eve.plan();
    plan.version = sent % 2 == 0 ? plan.version + 1 : 4'000'000'000u;
    plan.generation = sent % 3 == 0 ? plan.generation : plan.version;
    for (PlanServer& server : plan.servers) server.address = "tcp://127.0.0.1:9";
    plan.restore = "/tmp/evil";
    eve.Tell(plan);
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, plan);
    if (++sent % 20 == 0) eve.Receive();
  }
  strike.Say(fmt::format("{} plans", sent));
}

// Requests by plans that do not exist yet wait at the servers.
void FuturePlans(Strike& strike) {
  Intruder eve(&strike);
  if (!eve.Join(Role::kWorker)) return strike.Say("cannot join: " + eve.why());
  const uint32_t now = eve.envelope().plan_version;
  EmbedRequest request;
  request.features.EndRow();
  uint64_t sent = 0;
  while (strike.Pace(4 * kPerSecond)) {
    eve.envelope().plan_version = now + 1 + static_cast<uint32_t>(strike.random().Below(1u << 30));
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, request);
    eve.Tell(LeaseRequest());
    if (++sent % 20 == 0) {
      eve.Receive();
      eve.inbox().clear();
    }
  }
  strike.Say(fmt::format("{} requests", sent));
}

void Access(Strike& strike) {
  Intruder eve(&strike);
  if (!eve.Join(Role::kWorker)) return strike.Say("cannot join: " + eve.why());
  AccessList list;
  if (strike.keys()) list.keys.push_back({TextOf(strike.keys()->public_key), KeyRole::kScheduler});
  uint64_t sent = 0;
  while (strike.Pace(kPerSecond)) {
    if (sent % 2 == 0) {
      eve.Tell(list);
    } else {
      eve.Tell(AccessList());
    }
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, list);
    if (++sent % 20 == 0) eve.Receive();
  }
  strike.Say(fmt::format("{} lists", sent));
}

}  // namespace

std::vector<Attack> All() {
  return {
      {"forged.for-workers",
       As::kWorker,
       "Leave, Heartbeat, BatchDone... in honest workers' names",
       ForWorkers,
       {.quick = true}},
      {"forged.for-servers",
       As::kWorker,
       "Leave, CheckpointDone, ErrorReply... in servers' names",
       ForServers,
       {.quick = true}},
      {"forged.sequences-used-up", As::kWorker, "an honest worker's sequence numbers, at servers",
       UseUpSequences},
      {"forged.replays", As::kWorker, "other runs' ids, earlier and other lives", Replays},
      {"forged.names-squatted", As::kWorker, "members that ask for the honest ones' names",
       SquatNames},
      {"forged.names-1mb", As::kWorker, "members with names of 1 MB", LongNames},
      {"forged.names-foreign",
       As::kObserver,
       "names with newlines, escapes, NUL, no UTF-8, paths, scripts",
       ForeignNames,
       {.quick = true}},
      {"forged.plan", As::kWorker, "slot plans by a worker, to servers and scheduler",
       PlanOfOnesOwn},
      {"forged.future-plans", As::kWorker, "requests by plans of the far future", FuturePlans},
      {"forged.access-list", As::kWorker, "AccessLists by a worker", Access},
      {"forged.plain-leave-workers",
       As::kAnyone,
       "Leave in the workers' names",
       LeaveForWorkers,
       {.alone = true, .plain = true}},
      {"forged.plain-leave-server",
       As::kAnyone,
       "Leave in a server's name",
       LeaveForServer,
       {.alone = true, .plain = true}},
      {"forged.plain-error",
       As::kAnyone,
       "ErrorReply in a server's name",
       ErrorForServer,
       {.alone = true, .plain = true}},
      {"forged.plain-saved",
       As::kAnyone,
       "CheckpointDone with shard ../../../tmp/evil",
       SavedForServer,
       {.alone = true, .plain = true}},
      {"forged.plain-sequences",
       As::kAnyone,
       "an honest worker's sequence numbers, at servers",
       UseUpSequences,
       {.alone = true, .plain = true}},
  };
}

}  // namespace dslide::forged_attacks
