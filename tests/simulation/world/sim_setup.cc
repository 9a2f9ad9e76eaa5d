#include "tests/simulation/world/sim_setup.h"
#include "common/config/schedule.h"

#include <fmt/core.h>

#include "common/base/random.h"
#include "common/data/checksum.h"
#include "common/run/hold_out.h"
#include "common/run/step.h"

namespace dslide::sim {
namespace {

// Samples with one to three features and one or two labels.
Dataset DrawSamples(uint32_t count, uint32_t features, uint32_t labels, Random* random) {
  Dataset data(features, labels);
  for (uint32_t i = 0; i < count; ++i) {
    std::vector<uint32_t> feature_ids, label_ids;
    std::vector<float> values;
    for (uint32_t f = 0; f < features; ++f) {
      if (random->Below(features) >= 3) continue;
      feature_ids.push_back(f);
      values.push_back(static_cast<float>(0.25 + random->Uniform()));
    }
    label_ids.push_back(static_cast<uint32_t>(random->Below(labels)));
    data.Add({label_ids, feature_ids, values});
  }
  return data;
}

void DrawModel(Random* random, Config* config) {
  ModelConfig& model = config->model;
  model.hidden = 4;
  model.input_init = 0.3f;
  model.precision = random->Below(4) == 0 ? Precision::kBf16 : Precision::kFp32;
  constexpr ActiveSet kActiveSets[] = {ActiveSet::kLsh, ActiveSet::kAll, ActiveSet::kMass};
  model.active = kActiveSets[random->Below(3)];
  model.negatives = 6;
  model.candidates = 3;
  config->hash.tables = 3;
  config->hash.k = 1;
  config->hash.bin = 2;
  constexpr OptimizerKind kOptimizers[] = {OptimizerKind::kAdam, OptimizerKind::kAdaGrad,
                                           OptimizerKind::kSgd};
  config->train.optimizer = kOptimizers[random->Below(3)];
  config->train.learning_rate = 0.05f;
  config->train.dropout_hidden = random->Below(3) == 0 ? 0.2f : 0.0f;
}

void DrawTraining(Random* random, Config* config) {
  TrainConfig& train = config->train;
  train.epochs = static_cast<uint32_t>(2 + random->Below(2));
  train.batch = 4;
  train.warmup_batches = 3;
  train.unit_batches = static_cast<uint32_t>(1 + random->Below(3));
  train.batches_in_flight = static_cast<uint32_t>(random->Below(5));
  train.evaluate_samples = 6;
  // Half of the variants are synchronous, most of these without staleness.
  train.staleness = static_cast<int32_t>(random->Below(6)) - 3;
  if (train.staleness < 0) train.staleness = -1;
  if (train.staleness == 1) train.staleness = 0;
  if (train.staleness == 2) train.staleness = 1;
  if (train.staleness >= 0) {
    train.target_batch = train.batch * static_cast<uint32_t>(1 + random->Below(4));
  }
}

void DrawClusterConfig(Random* random, Config* config) {
  ClusterConfig& cluster = config->cluster;
  cluster.servers = static_cast<uint32_t>(1 + random->Below(3));
  cluster.executors = static_cast<uint32_t>(1 + random->Below(2));
  cluster.slots = 8;
  cluster.heartbeat_ms = random->Below(2) == 0 ? 1000 : 300;
  cluster.balance = random->Below(3) == 0 ? Balance::kOff : Balance::kAuto;
  cluster.wire = random->Below(2) == 0 ? Wire::kFp32 : Wire::kAuto;
  cluster.lease_timeout_ms = static_cast<uint32_t>(1000 + random->Below(4000));
  cluster.request_timeout_ms = static_cast<uint32_t>(300 + random->Below(3000));
  cluster.takeover_s = random->Below(2) == 0 ? 3 : 30;
  cluster.scheduler_silence_s = random->Below(4) == 0 ? 20 : 60;
  config->checkpoint.interval_s =
      random->Below(8) == 0 ? 0 : static_cast<uint32_t>(1 + random->Below(2));
  config->checkpoint.keep = static_cast<uint32_t>(1 + random->Below(2));
}

}  // namespace

SimSetup DrawSetup(uint64_t variant) {
  Random random(SubSeed(variant, 0x5e7));
  SimSetup setup;
  setup.variant = variant;
  setup.config.common.seed = 1 + random.Below(1000);
  DrawModel(&random, &setup.config);
  DrawTraining(&random, &setup.config);
  DrawClusterConfig(&random, &setup.config);
  setup.servers = setup.config.cluster.servers + static_cast<uint32_t>(random.Below(2));
  setup.workers = static_cast<uint32_t>(1 + random.Below(4));
  setup.workers_with_data = static_cast<uint32_t>(random.Below(setup.workers + 1));
  setup.fixed_addresses = random.Below(2) == 0;
  setup.with_test = random.Below(2) == 0;
  const auto features = static_cast<uint32_t>(10 + random.Below(11));
  const auto labels = static_cast<uint32_t>(20 + random.Below(11));
  setup.train.path = "train.txt";
  setup.train.data =
      DrawSamples(static_cast<uint32_t>(40 + random.Below(61)), features, labels, &random);
  setup.train.checksum = Checksum(setup.train.data);
  setup.test = DrawSamples(10, features, labels, &random);
  constexpr int32_t kInputSlots[] = {0, 0, 2, 3};
  setup.config.cluster.input_slots = kInputSlots[random.Below(4)];
  if (random.Below(4) == 0) setup.config.model.neurons = Neurons::kCentroids;
  ResolveConfig(features, labels, &setup.config);
  setup.config.train.heldout =
      random.Below(3) == 0 ? static_cast<uint32_t>(1 + random.Below(9)) : 0;
  setup.held_out = ChooseHeldOut(setup.train.data, setup.config).numbers;
  return setup;
}

uint64_t SimSetup::batches() const {
  return config.train.epochs * BatchesPerEpoch(config.train, trained());
}

std::string SimSetup::Describe() const {
  const TrainConfig& t = config.train;
  return fmt::format(
      "variant {}: {} servers and {} spares, {} executors each, {} workers; {} batches a run; "
      "staleness {}, {} batches a step, units of {}; active {}, test {}, {} held out, checkpoint "
      "every {} s; "
      "lease {} ms, request {} ms, takeover {} s",
      variant, config.cluster.servers, servers - config.cluster.servers, config.cluster.executors,
      workers, batches(), t.staleness, BatchesPerStep(t), t.unit_batches,
      config.model.active == ActiveSet::kLsh ? "lsh" : "all", with_test, held_out.size(),
      config.checkpoint.interval_s, config.cluster.lease_timeout_ms,
      config.cluster.request_timeout_ms, config.cluster.takeover_s);
}

}  // namespace dslide::sim
