// Reports that lie, by a worker that trains as it should.
#include <fmt/core.h>

#include <limits>

#include "tests/attacks/families/poison_attacks.h"
#include "worker/worker_core.h"

namespace dslide::report_attacks {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kMost = ~uint64_t{0};

void Report(Strike& strike, std::function<void(BatchDone*)> change) {
  LyingOptions options;
  options.twist = Change<BatchDone>(std::move(change));
  RunLyingWorker(strike, options);
}

void Beat(Strike& strike, std::function<void(Heartbeat*)> change) {
  LyingOptions options;
  options.twist = Change<Heartbeat>(std::move(change));
  RunLyingWorker(strike, options);
}

void LossNan(Strike& strike) {
  Report(strike, [](BatchDone* done) {
    done->loss_sum = done->samples % 2 == 0 ? kNan : kInfinity;
    done->recall_set = kNan;
    done->tail_error = -kInfinity;
  });
}
void Counters(Strike& strike) {
  Report(strike, [](BatchDone* done) {
    done->active_neurons_sum = kMost;
    done->active_rows = 0xffffffff;
    done->bytes_sent = done->bytes_received = kMost - 3;
    done->bytes_by_kind.assign(kBodyKinds, 0xffffffff);
  });
}
void Samples(Strike& strike) {
  Report(strike, [](BatchDone* done) { done->samples = done->samples == 32 ? 65536 : 0; });
}
void Places(Strike& strike) {
  Report(strike, [](BatchDone* done) {
    done->batch = {0xffffffff, 0xffffffff, 0xffffffff};
    done->lease = kMost;
  });
}
// Of a lease of an evaluation: labels that are none, or always the same.
void Predictions(Strike& strike) {
  Report(strike, [](BatchDone* done) {
    for (uint32_t& id : done->predictions.ids) id = 0;
  });
}
void PredictionsForeign(Strike& strike) {
  Report(strike, [](BatchDone* done) {
    for (uint32_t& id : done->predictions.ids) id = 0xffffffff;
    for (float& score : done->predictions.scores) score = 3e38f;
  });
}
void BeatAbsurd(Strike& strike) {
  Beat(strike, [](Heartbeat* beat) {
    beat->cpu_seconds = 1e300;
    beat->peak_rss_bytes = beat->bytes_sent = beat->bytes_received = kMost;
    beat->longest_batch_us = beat->round_trip_us = 0xffffffff;
    beat->batches_in_flight = beat->in_flight_limit = 0xffffffff;
    beat->bits_per_second = kMost;
    beat->malformed = kMost;
  });
}
void BeatLoad(Strike& strike) {
  Beat(strike, [](Heartbeat* beat) {
    beat->load = AbsurdLoad();
    beat->hash_round = 0xffffffff;
  });
}
// All servers are silent, it says.
void SilentServers(Strike& strike) {
  std::vector<uint64_t> servers;
  for (const PlanServer& server : strike.target().servers) {
    servers.push_back(server.incarnation.value);
  }
  Beat(strike, [servers](Heartbeat* beat) {
    beat->batches_in_flight = 5;
    beat->silent_servers = servers;
  });
}
void SilentMany(Strike& strike) {
  Beat(strike, [](Heartbeat* beat) { beat->silent_servers.assign(500'000, 77); });
}

}  // namespace

std::vector<Attack> All() {
  return {
      {"report.loss-nan", As::kWorker, "a loss and statistics that are NaN and infinite", LossNan},
      {"report.counters", As::kWorker, "counters that overflow: neurons, rows, bytes", Counters},
      {"report.samples", As::kWorker, "65,536 samples for a batch of 32", Samples},
      {"report.places", As::kWorker, "batches and leases that do not exist", Places},
      {"report.predictions-wrong", As::kWorker, "evaluations in which label 0 is always best",
       Predictions, on::kAlone},
      {"report.predictions-foreign", As::kWorker, "evaluations with labels that do not exist",
       PredictionsForeign},
      {"report.beat-absurd", As::kWorker, "heartbeats: CPU 1e300 s, batches of 71 minutes",
       BeatAbsurd},
      {"report.beat-load", As::kWorker, "a worker's load report of all slots", BeatLoad},
      {"report.silent-servers", As::kWorker, "all servers are silent, it says", SilentServers},
      {"report.silent-many", As::kWorker, "500,000 silent servers a heartbeat", SilentMany},
  };
}

}  // namespace dslide::report_attacks
