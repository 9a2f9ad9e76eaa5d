// Derived values: from the size of the data, or from the step of the run.
#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "common/base/address.h"
#include "common/base/check.h"
#include "common/base/plural.h"
#include "common/config/config.h"
#include "common/config/config_keys.h"
#include "common/config/limits.h"
#include "common/config/schedule.h"
#include "common/config/value_scale.h"

namespace dslide {
namespace {

// The largest K with at least kMinBucketNeurons neurons per bucket on average, and at least 1. The
// K bins of a DWTA table are disjoint parts of the H coordinates; otherwise some buckets could
// never be hit.
uint32_t DerivedHashes(const HashConfig& hash, uint32_t labels, uint32_t hidden) {
  const uint32_t bits = BitsPerHash(hash);
  const auto fits = [&](uint32_t k) {
    return k * bits <= kMaxCodeBits && (labels >> (k * bits)) >= kMinBucketNeurons &&
           k * hash.bin <= hidden;
  };
  uint32_t k = 1;
  while (fits(k + 1)) ++k;
  return k;
}

// Tuned on gnd-tibkat. Row-wise AdaGrad moves a new row by rate * sqrt(H) in all, so wider rows
// need a lower rate; Adam moves each element by the rate. A larger batch makes fewer steps with
// less noise: the square root of its size keeps the noise of an epoch (Malladi et al.: "On the SDEs
// and Scaling Rules for Adaptive Gradient Algorithms", NeurIPS 2022).
float DerivedLearningRate(OptimizerKind optimizer, Loss loss, uint32_t hidden, uint32_t batch) {
  const float by_width = 0.1f * std::sqrt(128.0f / static_cast<float>(hidden));
  switch (optimizer) {
    case OptimizerKind::kAdaGrad:
      return by_width * std::sqrt(static_cast<float>(batch) / 256.0f);
    case OptimizerKind::kAdam:
      return 0.01f;
    case OptimizerKind::kSgd:
      return loss == Loss::kSigmoid ? by_width : 1.0f;
  }
  DSLIDE_CHECK(false);
  return 0.0f;
}

// Few samples make few steps, whose gradients are alike: from 500 to 20,000 samples of gnd-text,
// gnd-tibkat and linux-calls the rate of batches of 512 was too high, and more epochs helped.
// Batches of less than 128 gained nothing.
struct Schedule {
  uint32_t batch;
  uint32_t epochs;
};
Schedule ScheduleFor(uint64_t samples) {
  if (samples >= kManySamples) return {kMostDerivedBatch, 8};
  if (samples >= kManySamples / 2) return {kMostDerivedBatch / 2, 12};
  return {kMostDerivedBatch / 4, 16};
}

uint32_t EpochsByEffort(Effort effort, uint32_t epochs) {
  switch (effort) {
    case Effort::kFast:
      return (epochs + 1) / 2;
    case Effort::kNormal:
      return epochs;
    case Effort::kBest:
      return epochs + epochs / 2;
  }
  DSLIDE_CHECK(false);
  return epochs;
}

// The most batches per unit, up to the configured number, such that whole units fill a step and
// several workers can share it.
uint32_t DerivedUnit(const TrainConfig& train) {
  constexpr uint32_t kUnitsPerStep = 8;
  const uint32_t step = train.target_batch / train.batch;
  uint32_t unit = std::clamp(step / kUnitsPerStep, 1u, train.unit_batches);
  while (step % unit != 0) --unit;
  return unit;
}

// Input rows that begin far from 0 have further to go. Tuned on a quarter of the calls of Linux.
constexpr float kCentroidRate = 5.0f;

// Every row of a word has few labels that agree. Tuned on 6.5 million words of English, one epoch
// (tools/bench/RESULTS.md, Word vectors).
constexpr float kWordRate = 2.5f;

// Where most labels have many samples, a model soon knows the training samples by heart. Tuned on
// gowalla, yso-finna-en, delicious and bibtex, whose median labels have 12 to 69 samples; those of
// gnd-tibkat, linux-calls and citeulike have 1 or 2. Few epochs with few units want less of it
// (yso-finna-en: 35.5 with 0.25, 34.7 with 0.5), wide layers more (gnd-text).
constexpr uint64_t kFrequentLabel = 10;
float DefaultDropout(const ModelConfig& model, Effort effort, const DataFacts& facts) {
  if (model.hidden < kLeastUnitsForHighDropout) return DropoutHidden({});
  if (facts.median_label >= kFrequentLabel) return effort == Effort::kFast ? 0.25f : kHighDropout;
  return effort == Effort::kBest ? 0.3f : DropoutHidden({});
}

float DefaultSmoothing(Effort effort) {
  return effort == Effort::kBest ? 0.2f : LabelSmoothing({});
}

// With train.exclude_own_features a model that knows the training samples by heart ranks a user's
// own things first, which do not count. Tuned on gowalla.
constexpr float kOwnFeaturesRate = 0.5f;

// Of a label that occurs a few times a centroid says more than gradients can. With few samples all
// labels are rare: there learned neurons are as good if all labels are equally frequent (parts of
// flat), and better if some are frequent, which centroids do not know.
Neurons DefaultNeurons(const ModelConfig& model, const DataFacts& facts) {
  const bool rare = facts.label_repeats <= kMaxRepeatsForCentroids && facts.samples >= kManySamples;
  const bool can =
      model.loss == Loss::kSoftmax && model.sharing == Sharing::kBatch && model.dense.empty();
  return rare && can && model.labels > kMaxLabelsForAll ? Neurons::kCentroids : Neurons::kLearned;
}

// SLIDE's own active sets are of hash tables. So are those of centroids: what competes with a
// centroid are its few neighbours, and draws by mass seldom meet them. Synchronous training needs
// sets that do not depend on the number of servers.
ActiveSet DefaultActiveSet(const ModelConfig& model, bool synchronous) {
  if (model.labels <= kMaxLabelsForAll) return ActiveSet::kAll;
  if (model.sharing == Sharing::kSample) return ActiveSet::kLsh;
  return !LearnsNeurons(model) && !synchronous ? ActiveSet::kLsh : ActiveSet::kMass;
}

// Whether a run may decide to draw more neurons later. In synchronous training the error that it
// measures depends on who reports.
bool MayDrawMore(const Config& config) {
  const ModelConfig& model = config.model;
  return DrawsByMass(model) && model.loss == Loss::kSoftmax && model.sharing == Sharing::kBatch &&
         LearnsNeurons(model) && config.train.effort != Effort::kFast &&
         !IsSynchronous(config.train) && LateNegatives(model) > model.negatives;
}

// Nobody knows where a stream ends, so the rate stays. What is derived from the number of labels is
// that of many: they come.
void ResolveStream(Config* config) {
  config->train.epochs = kMostSegments;
  config->train.decay = Decay::kNone;
  config->train.heldout = 0;
  config->train.cooldown_epochs = 0;
  config->train.late_dropout = 0;
  config->train.late_negatives = 0;
  if (config->model.neurons == Neurons::kAuto) config->model.neurons = Neurons::kLearned;
  if (config->model.active == ActiveSet::kAuto) config->model.active = ActiveSet::kMass;
}

constexpr uint32_t kTokenEpochs = 5;  // as word2vec and fastText

// Input rows take about a quarter of a batch's work. A model of few slots has few servers.
int32_t DerivedInputSlots(uint32_t slots) {
  constexpr uint32_t kFewSlots = 32;
  return slots < kFewSlots ? 0 : static_cast<int32_t>(slots / 4);
}

constexpr const char* kLoweredKeys[] = {"model.negatives", "cluster.slots", "cluster.input_slots"};

}  // namespace

uint32_t BitsPerHash(const HashConfig& hash) {
  return static_cast<uint32_t>(std::bit_width(hash.bin) - 1);
}

Config WithNominalSizes(Config config) {
  if (HasFixedSizes(config.train)) return config;
  config.model.features = kOpenFeatures;
  config.model.labels = kOpenLabels;
  config.train.epoch_samples = 0;
  return config;
}

uint32_t DerivedEpochs(const TextConfig& text, uint64_t samples) {
  return IsOfTokens(text) ? kTokenEpochs : ScheduleFor(samples).epochs;
}

void ResolveConfig(uint32_t features, uint32_t labels, Config* config, const DataFacts& facts) {
  DSLIDE_CHECK(features > 0 && labels > 0);
  ModelConfig& model = config->model;
  model.features = features;
  model.labels = labels;
  const bool of_tokens = IsOfTokens(config->text);
  if (config->train.open_vocabulary) ResolveStream(config);
  if (model.activation == Activation::kAuto) {
    const bool linear = of_tokens && model.dense.empty();
    model.activation = linear ? Activation::kLinear : Activation::kRelu;
  }
  if (model.neurons == Neurons::kAuto) {
    model.neurons = of_tokens ? Neurons::kLearned : DefaultNeurons(model, facts);
  }
  if (model.active == ActiveSet::kAuto) {
    model.active = DefaultActiveSet(model, IsSynchronous(config->train));
  }
  if (config->hash.k == 0) config->hash.k = DerivedHashes(config->hash, labels, OutputWidth(model));
  const bool centroids = !LearnsNeurons(model);
  if (model.input_init == 0.0f) model.input_init = centroids ? 1.0f : 0.005f;
  // Both cost accuracy: what a sample says of a rare label is all there is.
  // Word vectors want all of every sample.
  const bool regular = !centroids && !of_tokens;
  std::optional<float>& dropout = config->train.dropout_hidden;
  std::optional<float>& smoothing = config->train.label_smoothing;
  if (!dropout) dropout = regular ? DefaultDropout(model, config->train.effort, facts) : 0.0f;
  if (!smoothing) smoothing = regular ? DefaultSmoothing(config->train.effort) : 0.0f;
  config->train.warmup_batches = WarmupBatches(config->train);
  ResolveNormalize(1.0f, &config->train);
  if (model.output_init == 0.0f) {
    model.output_init = 1.0f / std::sqrt(static_cast<float>(OutputWidth(model)));
  }
  if (config->train.audit < 0.0f) config->train.audit = 0.0f;
  if (config->train.epochs == 0) {
    config->train.epochs =
        EpochsByEffort(config->train.effort, DerivedEpochs(config->text, facts.samples));
    if (config->train.schedule_epochs > 0) {
      config->train.epochs = std::min(config->train.epochs, config->train.schedule_epochs);
    }
  }
  if (config->train.batch == 0) config->train.batch = ScheduleFor(facts.samples).batch;
  if (config->train.learning_rate == 0.0f) {
    config->train.learning_rate = DerivedLearningRate(config->train.optimizer, model.loss,
                                                      model.hidden, config->train.batch) *
                                  (centroids ? kCentroidRate : 1.0f) *
                                  (config->train.exclude_own_features ? kOwnFeaturesRate : 1.0f) *
                                  (config->text.format == TextFormat::kWords ? kWordRate : 1.0f);
  }
  const bool measured = config->train.heldout.value_or(1) > 0 || !config->train.dev.empty();
  std::optional<uint32_t>& late_negatives = config->train.late_negatives;
  if (!measured || !MayDrawMore(*config)) late_negatives = late_negatives.value_or(0);
  // The schedule of train.effort = best is known: gnd-text loses 0.4 points by dropout that rises
  // after epoch 5 and an end after 8 of 12 epochs.
  if (centroids || !measured || config->train.effort == Effort::kBest) {
    for (auto* decided : {&config->train.cooldown_epochs, &config->train.late_dropout}) {
      *decided = decided->value_or(0);
    }
  }
  const bool fp32 = model.precision == Precision::kFp32;
  if (model.products == Products::kAuto) {
    model.products = fp32 ? Products::kFp32 : Products::kBf16;
  }
  if (config->train.moments == MomentPrecision::kAuto) {
    config->train.moments = fp32 ? MomentPrecision::kFp32 : MomentPrecision::kBf16;
  }
  if (IsSynchronous(config->train)) {
    TrainConfig& train = config->train;
    if (train.target_batch == 0) train.target_batch = train.batch;
    train.unit_batches = DerivedUnit(train);
  }
  model.candidates = std::min(model.candidates, labels);
  model.negatives = std::min(model.negatives, labels);
  ClusterConfig& cluster = config->cluster;
  cluster.slots = std::min({cluster.slots, labels, features});
  const bool too_many = cluster.input_slots >= static_cast<int32_t>(cluster.slots);
  if (cluster.input_slots < 0 || too_many) cluster.input_slots = DerivedInputSlots(cluster.slots);
}

std::vector<std::string> LoweredValues(const Config& asked, const Config& resolved,
                                       const std::set<std::string>& given) {
  std::vector<std::string> lines;
  for (const char* name : kLoweredKeys) {
    const ConfigKey* key = FindConfigKey(name);
    DSLIDE_CHECK(key != nullptr);
    const std::string before = key->field.format(asked), after = key->field.format(resolved);
    const bool left_open = before.starts_with('-');
    if (before == after || left_open || !given.contains(name)) continue;
    lines.push_back(fmt::format("{} = {} is lowered to {}: the data has {} and {}", name, before,
                                after, Plural(resolved.model.labels, "label"),
                                Plural(resolved.model.features, "feature")));
  }
  return lines;
}

uint64_t RowsOfDenseLayers(const ModelConfig& model) {
  const uint64_t width = model.hidden;
  const auto rows_for = [&](uint64_t elements) { return (elements + width - 1) / width; };
  uint64_t rows = 0, in = width;
  for (const uint64_t out : model.dense) {
    rows += out * rows_for(in) + rows_for(out);
    in = out;
  }
  return rows;
}

std::string HiddenText(const ModelConfig& model) {
  std::string text = std::to_string(model.hidden);
  for (const uint32_t width : model.dense) text += fmt::format(",{}", width);
  return text;
}

std::string TrainingText(const Config& config) {
  const TrainConfig& train = config.train;
  const std::string passes =
      train.open_vocabulary ? fmt::format("segments of up to {} samples", train.segment_samples)
                            : fmt::format("{} epoch{}", train.epochs, train.epochs == 1 ? "" : "s");
  const float divisor = ValueDivisor(train);
  return fmt::format("H = {}, neurons {}, batches of {}, {}, learning rate {:.2g}{}, effort {}",
                     HiddenText(config.model),
                     LearnsNeurons(config.model) ? "learned" : "centroids", train.batch, passes,
                     train.learning_rate,
                     divisor == 1.0f ? "" : fmt::format(", values divided by {:.4g}", divisor),
                     FindConfigKey("train.effort")->field.format(config));
}

bool IsEncrypted(const Config& config) {
  const Encryption encryption = config.security.encryption;
  if (encryption == Encryption::kAuto) return !IsLoopback(config.cluster.scheduler_bind);
  return encryption == Encryption::kAlways;
}

}  // namespace dslide
