// Garbage by a server whose key counts. It joins a running cluster, gets slots, and lies.
#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "common/base/process.h"
#include "tests/attacks/families/poison_attacks.h"
#include "tests/attacks/intruder.h"
#include "tests/attacks/lying_server.h"

namespace dslide::server_attacks {
namespace {

uint32_t SamplesIn(const Body& request) {
  if (const auto* embed = std::get_if<EmbedRequest>(&request)) return embed->features.rows();
  if (const auto* query = std::get_if<ActiveQuery>(&request)) return query->hidden.rows;
  if (const auto* push = std::get_if<GradientPush>(&request)) {
    return static_cast<uint32_t>(push->log_normaliser.size());
  }
  if (const auto* push = std::get_if<EmbedPush>(&request)) return push->gradient.rows;
  return 0;
}

// What looks like an answer, with `value` in the place of all numbers.
std::optional<Body> Answer(const Body& request, const Config& config, float value,
                           uint32_t more_rows = 0) {
  const uint32_t samples = SamplesIn(request) + more_rows;
  Matrix partial(samples, config.model.hidden);
  for (float& x : partial.data) x = value;
  if (std::holds_alternative<EmbedRequest>(request)) return EmbedReply{partial};
  if (std::holds_alternative<GradientPush>(request)) return GradientReply{partial};
  if (std::holds_alternative<EmbedPush>(request)) return Ack{};
  if (std::holds_alternative<ActiveQuery>(request)) {
    ActiveReply reply;
    reply.max.assign(samples, value);
    reply.sum_exp.assign(samples, 1);
    reply.target_logit.assign(samples, value);
    reply.active.assign(samples, 1);
    return reply;
  }
  if (const auto* top = std::get_if<TopKRequest>(&request)) {
    TopKReply reply;
    for (uint32_t i = 0; i < top->hidden.rows; ++i) {
      reply.ids.push_back(0);
      reply.scores.push_back(value);
      reply.offsets.push_back(i + 1);
    }
    return reply;
  }
  return std::nullopt;
}

void Serve(Strike& strike, LyingServerOptions options) { RunLyingServer(strike, options); }

void Silence(Strike& strike) {
  LyingServerOptions options;
  options.memory_bytes = uint64_t{1} << 60;
  Serve(strike, options);
}
void Numbers(Strike& strike, float value) {
  LyingServerOptions options;
  options.answer = [value](const Body& request, const Config& config) {
    return Answer(request, config, value);
  };
  Serve(strike, options);
}
void Nan(Strike& strike) { Numbers(strike, std::numeric_limits<float>::quiet_NaN()); }
void RandomNumbers(Strike& strike) {
  LyingServerOptions options;
  options.answer = [&strike](const Body& request, const Config& config) {
    return Answer(request, config, 10 * static_cast<float>(strike.random().Normal()));
  };
  Serve(strike, options);
}
void WrongShapes(Strike& strike) {
  LyingServerOptions options;
  options.answer = [](const Body& request, const Config& config) {
    return Answer(request, config, 0.5f, 3);
  };
  Serve(strike, options);
}
void WrongKinds(Strike& strike) {
  LyingServerOptions options;
  options.answer = [&strike](const Body&, const Config&) -> std::optional<Body> {
    const std::vector<Body> kinds = {Ack(),
                                     LeaseWait{1, true},
                                     Shutdown{"eve", 0},
                                     HeartbeatReply(),
                                     JoinReply(),
                                     ErrorReply{ErrorCode::kFenced, "eve"},
                                     StatusReply{"{}"}};
    return kinds[strike.random().Below(kinds.size())];
  };
  Serve(strike, options);
}
// A plan of its own for the workers that ask it.
void PlanForWorkers(Strike& strike) {
  LyingServerOptions options;
  options.answer = [](const Body&, const Config& config) -> std::optional<Body> {
    Plan plan;
    plan.version = plan.generation = 4'000'000'000u;
    plan.servers = {{"eve", "tcp://127.0.0.1:9", Incarnation{7}}};
    plan.slot_owner.assign(config.cluster.slots, 0);
    return plan;
  };
  Serve(strike, options);
}
// Slots that it hands over are garbage.
void SlotGarbage(Strike& strike) {
  LyingServerOptions options;
  options.drains = true;
  options.answer = [&strike](const Body& request, const Config& config) -> std::optional<Body> {
    const auto* pull = std::get_if<SlotPull>(&request);
    if (pull == nullptr) return Answer(request, config, 0.0f);
    if (pull->release) return Ack{};
    SlotRows rows;
    rows.slot = pull->slot;
    rows.part = pull->part;
    rows.last = pull->part > 2;
    for (uint32_t i = 0; i < 5; ++i) {
      rows.rows.push_back(static_cast<uint32_t>(strike.random().Below(1000)));
      for (int b = 0; b < 70; ++b)
        rows.bytes.push_back(static_cast<uint8_t>(strike.random().Next()));
      rows.ends.push_back(static_cast<uint32_t>(rows.bytes.size()));
    }
    rows.input_rows = 2;
    rows.applied_output.assign(100, ~uint64_t{0});
    rows.applied_input.assign(100, ~uint64_t{0});
    return rows;
  };
  Serve(strike, options);
}

void Say(Strike& strike, std::function<std::optional<Body>(uint64_t)> tell) {
  LyingServerOptions options;
  options.wants_slots = false;
  options.tell = std::move(tell);
  options.answer = [](const Body& request, const Config& config) {
    return Answer(request, config, 0.0f);
  };
  Serve(strike, options);
}
void EvilShard(Strike& strike) {
  Say(strike, [](uint64_t round) -> std::optional<Body> {
    CheckpointDone done;
    done.name = fmt::format("step-{:012}", 300 + round);
    done.shard = "../../../tmp/evil";
    done.files = {{"../../../etc/passwd", 1, 1}};
    done.rows = done.bytes = ~uint64_t{0};
    return done;
  });
}
void Errors(Strike& strike) {
  Say(strike, [](uint64_t) -> std::optional<Body> {
    return ErrorReply{ErrorCode::kRefused, "training diverged, says eve"};
  });
}
void Audits(Strike& strike) {
  const std::vector<Incarnation> workers = strike.target().workers;
  Say(strike, [workers, &strike](uint64_t round) -> std::optional<Body> {
    AuditReport report;
    report.batch = {static_cast<uint32_t>(1 + round % 9), static_cast<uint32_t>(round % 10),
                    static_cast<uint32_t>(round % 8)};
    for (const Incarnation worker : workers) {
      report.workers.push_back(worker.value);
      report.digests.push_back(strike.random().Next());
      report.input_digests.push_back(strike.random().Next());
      report.output_counts = report.input_counts = worker.value;
    }
    return report;
  });
}
void Commits(Strike& strike) {
  Say(strike, [](uint64_t) -> std::optional<Body> { return StepsCommitted{~uint64_t{0}}; });
}
void DrainOthers(Strike& strike) {
  Say(strike, [](uint64_t round) -> std::optional<Body> {
    return DrainServer{round % 2 == 0 ? "server-1" : "server-2"};
  });
}
void Saves(Strike& strike) {
  Say(strike, [](uint64_t) -> std::optional<Body> { return CheckpointNow(); });
}

void Loads(Strike& strike) {
  LyingServerOptions options;
  options.wants_slots = false;
  options.beat = [](Heartbeat* beat) {
    beat->load = AbsurdLoad();
    beat->memory_used_bytes = ~uint64_t{0};
  };
  options.answer = [](const Body& request, const Config& config) {
    return Answer(request, config, 0.0f);
  };
  Serve(strike, options);
}

// Servers whose addresses nobody answers at, and which the scheduler dials.
void Unreachable(Strike& strike) {
  Repeat(strike, {200, "servers that are not there", std::nullopt}, [&](Intruder& eve, uint64_t n) {
    Join join;
    join.role = Role::kServer;
    join.name = fmt::format("eve-{}", n);
    join.address = fmt::format("tcp://127.0.0.{}:{}", 2 + n % 200, 1 + n % 60000);
    join.memory_bytes = uint64_t{1} << 40;
    eve.envelope().incarnation = strike.Draw();
    eve.Tell(join);
  });
}

// What no address is, or another's.
void Addresses(Strike& strike) {
  const std::vector<std::string> addresses = {
      strike.target().scheduler,
      strike.target().servers.at(0).address,
      fmt::format("tcp://127.0.0.1:{}", strike.target().status_port),
      "ipc:///tmp/evil",
      "inproc://zeromq.zap.01",
      "tcp://*:*",
      "pgm://eth0;239.192.1.1:5555",
      std::string(500'000, 'a'),
      "tcp://127.0.0.1:99999999",
      "tcp://evil.invalid:1"};
  Repeat(strike, {.per_second = 50, .what = "joins", .role = std::nullopt, .listens_every = 10},
         [&](Intruder& eve, uint64_t n) {
           Join join;
           join.role = Role::kServer;
           join.address = addresses[n % addresses.size()];
           join.memory_bytes = uint64_t{1} << 40;
           eve.envelope().incarnation = strike.Draw();
           eve.Tell(join);
         });
}

// A server asks other servers for all slots, and lets them forget theirs.
void Pulls(Strike& strike) {
  Repeat(strike, {400, "pulls", std::nullopt}, [](Intruder& eve, uint64_t n) {
    SlotPull pull;
    pull.slot = static_cast<uint32_t>(n % 300);
    pull.release = n % 3 == 2;
    pull.max_bytes = 0xffffffff;
    pull.part = n % 3 == 1 ? 0xffffffff : 0;
    eve.TellServer(n % 2, pull);
  });
}

}  // namespace

std::vector<Attack> All() {
  std::vector<Attack> all = {
      {"server.silence", As::kServer, "joins with 2^60 bytes of memory, then is silent", Silence},
      {"server.nan", As::kServer, "partial sums of NaN", Nan},
      {"server.random", As::kServer, "random sums and logits", RandomNumbers},
      {"server.wrong-shapes", As::kServer, "three rows too many in each answer", WrongShapes},
      {"server.wrong-kinds", As::kServer, "answers of any other kind", WrongKinds},
      {"server.plan", As::kServer, "slot plans of its own for the workers", PlanForWorkers},
      {"server.slot-garbage", As::kServer, "hands over slots that are garbage", SlotGarbage},
      {"server.evil-shard", As::kServer, "CheckpointDone with shard ../../../tmp/evil", EvilShard},
      {"server.errors", As::kServer, "says that training has diverged", Errors},
      {"server.audits", As::kServer, "AuditReports that accuse the honest workers", Audits},
      {"server.commits", As::kServer, "all steps are committed, it says", Commits},
      {"server.drain-others", As::kServer, "DrainServer for the other servers", DrainOthers},
      {"server.saves", As::kServer, "CheckpointNow seven times a second", Saves},
      {"server.loads", As::kServer, "load reports of 3e38 and 2^62 bytes for all slots", Loads},
      {"server.unreachable", As::kServer, "200 servers a second at addresses nobody has",
       Unreachable},
      {"server.addresses", As::kServer, "addresses that are none, or another's", Addresses},
      {"server.pulls", As::kServer, "SlotPull and release of slots that are not its own", Pulls},
  };
  for (Attack& attack : all) {
    attack.on.alone = true;
    attack.on.times = 4;  // slots come when it has been there for a while
    if (std::string(attack.name) == "server.audits") attack.on.synchronous = true;
    if (std::string(attack.name) == "server.commits") attack.on.synchronous = true;
  }
  return all;
}

}  // namespace dslide::server_attacks
