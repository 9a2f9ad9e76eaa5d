#include "tools/dslide/model/grown_checkpoint.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "common/base/process.h"
#include "common/checkpoint/layout.h"
#include "common/config/stored_config.h"
#include "common/math/kernels.h"
#include "common/run/silence.h"
#include "common/run/slot_rows.h"
#include "server/executor/executor.h"
#include "server/model/centroids.h"
#include "server/storage/checkpoint.h"
#include "server/storage/checkpoint_store.h"
#include "server/storage/row_database.h"
#include "server/storage/stored_keys.h"

namespace dslide {
namespace {

constexpr uint32_t kRowsBetweenQuestions = 4096;  // of whether to stop
constexpr int kPollMs = 20;

Error WasStopped() { return TryLater("stopped before training began"); }

// Adds the activations of samples up, for each of some groups of them.
class UnitSums {
 public:
  UnitSums(Inference* model, uint32_t groups)
      : model_(*model),
        hidden_(OutputWidth(model->config().model)),
        samples_(groups),
        units_(size_t{groups} * hidden_) {}

  // A sample of these groups.
  Status Add(const SampleView& sample, std::span<const uint32_t> groups) {
    if (groups.empty() || sample.weight == 0) return {};
    groups_.ids.insert(groups_.ids.end(), groups.begin(), groups.end());
    groups_.EndRow();
    for (size_t i = 0; i < sample.features.size(); ++i) {
      if (sample.features[i] >= model_.config().model.features) continue;
      features_.ids.push_back(sample.features[i]);
      features_.values.push_back(sample.values[i]);
    }
    features_.EndRow();
    return features_.rows() == kMaxInferenceBatch ? Flush() : Status();
  }

  // To be called after the last sample.
  Status Flush() {
    if (features_.rows() == 0) return {};
    const Result<Matrix> activations = model_.Embed(features_);
    DSLIDE_RETURN_IF_ERROR(activations);
    const Kernels& kernels = BestKernels();
    for (uint32_t i = 0; i < features_.rows(); ++i) {
      const float* h = activations->row(i);
      const float norm = std::sqrt(kernels.dot(hidden_, h, h));
      if (norm == 0) continue;
      for (const uint32_t group : groups_.Ids(i)) {
        kernels.axpy(hidden_, 1 / norm, h, &units_[size_t{group} * hidden_]);
        samples_[group]++;
      }
    }
    features_ = groups_ = SparseRows();
    return {};
  }

  std::vector<uint32_t>& samples() { return samples_; }  // [groups]
  std::vector<float>& units() { return units_; }         // [groups x H]

 private:
  Inference& model_;
  const uint32_t hidden_;
  std::vector<uint32_t> samples_;
  std::vector<float> units_;
  SparseRows features_;
  SparseRows groups_;  // of the same samples
};

// The id of a row of a layer, by its key.
uint32_t IdOf(const StoredRowKey& key, const ClusterConfig& cluster) {
  const SlotRange range =
      key.layer == LayerKind::kInput ? InputSlots(cluster) : OutputSlots(cluster);
  return key.row * range.count + key.slot.value - range.first;
}

// Puts the rows of a checkpoint in the place of initial ones. REQUIRES that its content was
// checked.
Status LoadEarlierRows(const EarlierModel& from, const Config& config, Executor* executor,
                       const Stopped& stopped) {
  uint64_t rows = 0;
  for (const ManifestShard& shard : from.manifest.shards) {
    auto database = RowDatabase::OpenForReading(from.directory + "/" + shard.directory);
    DSLIDE_RETURN_IF_ERROR(database);
    RowDatabase::Cursor at = (*database)->NewCursor();
    for (at.Seek(View(EncodeRowKey({LayerKind::kInput, {0}, 0}))); at.Valid(); at.Next()) {
      const auto key = DecodeRowKey(at.key());
      if (!key) break;  // the records of its executors
      uint32_t id = IdOf(*key, from.config.cluster);
      // The bias of the hidden units, and the dense layers, are the input rows after the last
      // feature's.
      const uint32_t features = from.config.model.features;
      const bool is_behind = key->layer == LayerKind::kInput && id >= features;
      if (is_behind) id = config.model.features + (id - features);
      Layer& layer =
          key->layer == LayerKind::kInput ? executor->input().layer() : executor->output().layer();
      layer.LoadRow(layer.map().Local(id), at.value());  // without the hash codes
      if (++rows % kRowsBetweenQuestions == 0 && stopped()) return WasStopped();
    }
    DSLIDE_RETURN_IF_ERROR(at.status());
  }
  return {};
}

// The mean length and bias of neurons.
struct MeanNeuron {
  double length = 0;
  double bias = 0;
};
// Of ids [begin, end), without those that are silent; nullopt: all are.
std::optional<MeanNeuron> MeanOf(const Layer& layer, uint32_t begin, uint32_t end) {
  MeanNeuron sum;
  uint32_t count = 0;
  std::vector<float> wide;
  for (uint32_t id = begin; id < end; ++id) {
    const uint32_t row = layer.map().Local(id);
    if (IsSilent(layer.bias(row))) continue;
    const float* w = layer.Range(row, row + 1, &wide);
    sum.length += std::sqrt(double{BestKernels().dot(layer.dim(), w, w)});
    sum.bias += double{layer.bias(row)};
    ++count;
  }
  if (count == 0) return std::nullopt;
  return MeanNeuron{sum.length / count, sum.bias / count};
}

// What a new label's neuron is like. Where the model has none to tell it, as in a fresh run.
MeanNeuron MeanForNew(const Layer& layer, uint32_t known, uint32_t labels) {
  if (const auto mean = MeanOf(layer, 0, known)) return *mean;
  return MeanOf(layer, known, labels).value_or(MeanNeuron());
}

// x / |x|; x stays if it is 0.
void ToUnit(std::vector<float>* x) {
  const float norm = std::sqrt(BestKernels().dot(x->size(), x->data(), x->data()));
  if (norm == 0) return;
  for (float& value : *x) value /= norm;
}

// The direction of a new label's row, as the header says. `fresh`: [H] weights of a fresh run.
std::vector<float> DirectionOf(const NewLabels& labels, uint32_t i, const float* fresh) {
  const size_t hidden = labels.common.size();
  const float* units = &labels.units[i * hidden];
  const auto samples = static_cast<float>(labels.samples[i]);
  std::vector<float> direction(hidden), other(fresh, fresh + hidden);
  for (size_t j = 0; j < hidden; ++j) direction[j] = units[j] / samples - labels.common[j];
  ToUnit(&direction);
  ToUnit(&other);
  BestKernels().axpy(hidden, kFresh, other.data(), direction.data());
  ToUnit(&direction);
  return direction;
}

void SetNewLabels(const NewLabels& labels, uint32_t known, bool centroids, Layer* layer) {
  constexpr uint32_t kBeforeTheFirstPass = 0;
  const auto end = known + static_cast<uint32_t>(labels.samples.size());
  const MeanNeuron mean = centroids ? MeanNeuron() : MeanForNew(*layer, known, end);
  std::vector<float> wide;
  for (uint32_t i = 0; i < labels.samples.size(); ++i) {
    if (labels.samples[i] == 0) continue;
    const uint32_t row = layer->map().Local(known + i);
    if (centroids) {
      layer->AddToCentroid(row, &labels.units[size_t{i} * layer->dim()], labels.samples[i],
                           kBeforeTheFirstPass, kCentroidLength);
      continue;
    }
    std::vector<float> weights = DirectionOf(labels, i, layer->Range(row, row + 1, &wide));
    for (float& w : weights) w *= static_cast<float>(mean.length);
    layer->BeginAs(row, {std::move(weights), static_cast<float>(mean.bias)});
  }
}

// The first pass of the new run begins new sums, also where the earlier run made only one.
void EndCentroidPasses(uint32_t known, Layer* layer) {
  for (uint32_t id = 0; id < known; ++id) layer->EndCentroidPass(layer->map().Local(id));
}

Result<CheckpointDone> Save(CheckpointStore* store, const std::string& directory,
                            const Config& config, Executor* executor, const Stopped& stopped) {
  CheckpointStore::Save save;
  save.name = CheckpointName(0);
  save.directory = directory;
  save.shard = ShardName(0, 0);  // before all plans
  save.slots = AllSlots(config.cluster);
  save.executors = 1;
  save.rows =
      uint64_t{executor->input().layer().map().size()} + executor->output().layer().map().size();
  store->Begin(save);
  executor->BeginSnapshot(store);
  pollfd ready{store->fd(), POLLIN, 0};
  while (true) {
    if (stopped()) {
      executor->AbortSnapshot();
      store->GiveUp("stopped", false);
      return WasStopped();
    }
    if (executor->AdvanceSnapshot()) continue;
    (void)poll(&ready, 1, executor->snapshot_in_progress() ? 1 : kPollMs);
    if (auto saved = store->Collect()) return std::move(saved->done);
  }
}

// The mean of the means of the new labels that have samples; 0 if fewer than two have.
std::vector<float> CommonOf(const NewLabels& labels, uint32_t hidden) {
  std::vector<float> common(hidden);
  const auto met =
      labels.samples.size() - static_cast<size_t>(std::ranges::count(labels.samples, 0u));
  if (met < 2) return common;
  for (size_t i = 0; i < labels.samples.size(); ++i) {
    if (labels.samples[i] == 0) continue;
    const auto share = 1.0 / (static_cast<double>(met) * labels.samples[i]);
    BestKernels().axpy(hidden, static_cast<float>(share), &labels.units[i * hidden], common.data());
  }
  return common;
}

}  // namespace

Result<EarlierModel> FindEarlierModel(const std::string& path) {
  Result<std::string> directory = FindCheckpoint(path);
  DSLIDE_RETURN_IF_ERROR(directory);
  Result<Manifest> manifest = ReadManifest(*directory);
  DSLIDE_RETURN_IF_ERROR(manifest);
  Result<Config> config = ParseStoredConfig(manifest->config, *directory + "/manifest");
  DSLIDE_RETURN_IF_ERROR(config);
  // A run of a version without the key: every slot holds rows of both layers.
  config->cluster.input_slots = std::max(config->cluster.input_slots, 0);
  return EarlierModel{*std::move(directory), *std::move(manifest), *std::move(config)};
}

Result<NewLabels> MeetNewLabels(Inference* model, const Dataset& data,
                                std::span<const uint32_t> held_out, uint32_t labels,
                                const Stopped& stopped) {
  const uint32_t known = model->config().model.labels;
  UnitSums sums(model, labels - known);
  std::vector<uint32_t> asked(labels - known);
  std::vector<uint32_t> groups;
  for (uint32_t i = 0; i < data.size(); ++i) {
    if (std::ranges::binary_search(held_out, i)) continue;
    groups.clear();
    for (const uint32_t label : data[i].labels) {
      if (label < known || asked[label - known] == NewLabels::kMostSamples) continue;
      asked[label - known]++;
      groups.push_back(label - known);
    }
    DSLIDE_RETURN_IF_ERROR(sums.Add(data[i], groups));
    if (i % kRowsBetweenQuestions == 0 && stopped()) return WasStopped();
  }
  DSLIDE_RETURN_IF_ERROR(sums.Flush());
  NewLabels met{std::move(sums.samples()), std::move(sums.units()), {}};
  met.common = CommonOf(met, OutputWidth(model->config().model));
  return met;
}

Result<ManifestShard> WriteGrownShard(const EarlierModel& from, const Config& config,
                                      const NewLabels& labels, const std::string& directory,
                                      const Stopped& stopped) {
  const auto shards = CheckpointShards::Open(from.directory);
  DSLIDE_RETURN_IF_ERROR(shards);
  const auto content = (*shards)->CheckContent(from.config);
  DSLIDE_RETURN_IF_ERROR(content);
  const ModelConfig& model = config.model;
  Executor executor(config, 1, AllSlots(config.cluster), Purpose::kTraining, BestKernels());
  Layer& output = executor.output().layer();
  executor.input().Initialise(config);
  output.Initialise(config.common.seed, model.output_init, model.labels);
  DSLIDE_RETURN_IF_ERROR(LoadEarlierRows(from, config, &executor, stopped));
  const bool centroids = model.neurons == Neurons::kCentroids;
  if (centroids) EndCentroidPasses(from.config.model.labels, &output);
  SetNewLabels(labels, from.config.model.labels, centroids, &output);
  if (executor.output().index() != nullptr) executor.output().index()->tables().CatchUp();

  CheckpointStore::Place place;
  place.life = fmt::format("grown-{:016x}", DrawIncarnation().value);
  CheckpointStore store(std::move(place), {});
  Result<CheckpointDone> done = Save(&store, directory, config, &executor, stopped);
  DSLIDE_RETURN_IF_ERROR(done);
  if (!done->error.empty()) return Failed(done->error);
  return ManifestShard{done->shard, "", done->rows, done->bytes, std::move(done->files)};
}

}  // namespace dslide
