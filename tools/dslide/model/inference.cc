#include "tools/dslide/model/inference.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/checkpoint/stored_label_names.h"
#include "common/checkpoint/stored_preprocessor.h"
#include "common/config/stored_config.h"
#include "common/config/value_scale.h"
#include "common/model/model_file.h"
#include "common/run/combine.h"
#include "common/run/slot_rows.h"
#include "common/text/records/line_blocks.h"
#include "scheduler/balance/model_size.h"
#include "server/executor/gather.h"
#include "server/storage/checkpoint.h"
#include "tools/dslide/model/model_source.h"
#include "tools/dslide/model/search_choice.h"

namespace dslide {

namespace {

// For inference no moments are in memory.
Status CheckMemory(Config config, const std::string& directory) {
  config.train.optimizer = OptimizerKind::kSgd;
  const uint64_t bytes = ModelMemoryBytes(config);
  const uint64_t machine = MemoryOfThisMachine();
  if (bytes <= machine) return {};
  return Failed(fmt::format(
      "{}: a model of {}, {} and {} needs {} MB, this machine has {} MB; use a larger "
      "one",
      directory, Plural(config.model.features, "feature"), Plural(config.model.labels, "label"),
      HiddenText(config.model) + " hidden units", bytes >> 20, machine >> 20));
}

template <typename Each>
void ForEachRowOf(const Layer& layer, const Each& each) {
  std::vector<float> wide;
  for (uint32_t row = 0; row < layer.map().rows(); ++row) {
    const uint32_t id = layer.map().Global(row);
    if (id != SlotMap::kNone) each(id, layer.Range(row, row + 1, &wide), layer.bias(row));
  }
}

}  // namespace

std::unique_ptr<Inference> Inference::Of(std::shared_ptr<const Model> model,
                                         const std::string& path) {
  std::unique_ptr<Inference> inference(new Inference());
  inference->config_ = model->info().config;
  inference->directory_ = path;
  inference->preprocessor_ = model->shared_preprocessor();
  inference->label_names_ = model->info().label_names;
  inference->name_ranking_ = model->info().name_ranking;
  for (uint32_t i = 0; i < CoresOfThisMachine(); ++i) {
    inference->rankers_.emplace_back(model, BestKernels());
  }
  return inference;
}

Result<std::unique_ptr<Inference>> Inference::LoadAsServed(const std::string& path,
                                                           const Options& how) {
  ModelSourceOptions options;
  options.rare = how.rare;
  options.by_model = how.by_model;
  options.index = false;
  Result<std::shared_ptr<const Model>> model = LoadModel(path, options);
  DSLIDE_RETURN_IF_ERROR(model);
  return Of(*std::move(model), path);
}

Result<std::unique_ptr<Inference>> Inference::Load(const std::string& path) {
  return Load(path, Options());
}

Result<std::unique_ptr<Inference>> Inference::Load(const std::string& path,
                                                   const Options& options) {
  const std::string& label_names = options.label_names;
  const bool as_served = options.as_served || IsModelFile(path);
  auto model = as_served ? LoadAsServed(path, options) : LoadCheckpoint(path, label_names.empty());
  if (model.ok() && !as_served && options.rare) {
    if (!options.by_model) {
      auto names = LoadNameRankingOf((*model)->directory_, (*model)->preprocessor());
      DSLIDE_RETURN_IF_ERROR(names);
      (*model)->name_ranking_ = *std::move(names);
    }
    DSLIDE_RETURN_IF_ERROR((*model)->AdjustLogits(*options.rare));
  }
  if (!model.ok() || label_names.empty()) return model;
  if ((*model)->preprocessor_ != nullptr) {
    return BadInput(
        fmt::format("--label-names {}: the model was trained on text, which has its labels' names; "
                    "leave it out",
                    label_names));
  }
  Result<std::vector<std::string>> names =
      LoadLabelNames(label_names, (*model)->config_.model.labels);
  DSLIDE_RETURN_IF_ERROR(names);
  (*model)->label_names_ = *std::move(names);
  return model;
}

Result<std::unique_ptr<Inference>> Inference::LoadCheckpoint(const std::string& path,
                                                             bool with_label_names) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    const bool exists = std::filesystem::exists(path, ignored);
    return BadInput(
        fmt::format("{}: {}; give a run directory, a checkpoint, or a file by dslide export", path,
                    exists ? "is no model" : "no such file or directory"));
  }
  Result<std::string> directory = FindCheckpoint(path);
  DSLIDE_RETURN_IF_ERROR(directory);
  Result<Manifest> manifest = ReadManifest(*directory);
  DSLIDE_RETURN_IF_ERROR(manifest);
  Result<Config> config = ParseStoredConfig(manifest->config, *directory + "/manifest");
  DSLIDE_RETURN_IF_ERROR(config);
  DSLIDE_RETURN_IF_ERROR(CheckMemory(*config, *directory));
  auto preprocessor = LoadPreprocessorOf(*directory, manifest->preprocessor);
  DSLIDE_RETURN_IF_ERROR(preprocessor);
  if (*preprocessor != nullptr && ((*preprocessor)->num_features() != config->model.features ||
                                   (*preprocessor)->num_labels() != config->model.labels)) {
    return BadInput(fmt::format("{}: the preprocessor is that of another model", *directory));
  }

  Result<std::vector<std::string>> names = with_label_names && *preprocessor == nullptr
                                               ? LoadLabelNamesOf(*directory, *config)
                                               : std::vector<std::string>();
  DSLIDE_RETURN_IF_ERROR(names);

  std::unique_ptr<Inference> model(new Inference());
  model->label_names_ = *std::move(names);
  model->config_ = std::move(*config);
  model->manifest_ = std::move(*manifest);
  model->directory_ = std::move(*directory);
  model->preprocessor_ = *std::move(preprocessor);
  const Config& c = model->config_;
  const uint32_t executors = std::min(CoresOfThisMachine(), c.cluster.slots);
  const auto divided = DivideSlots(AllSlots(c.cluster), c.cluster, executors);
  model->pool_ = std::make_unique<ExecutorPool>(executors, [&c, divided](uint32_t i) {
    return std::make_unique<Executor>(c, 1, divided[i], Purpose::kInference, BestKernels());
  });
  const auto shards = CheckpointShards::Open(model->directory_);
  DSLIDE_RETURN_IF_ERROR(shards);
  const auto loaded = model->pool_->RunOnAll([&shards](Executor& executor) -> JobReply {
    const Status restored = (*shards)->Restore(&executor);
    if (!restored.ok()) return restored.error();
    return Done{};
  });
  for (const JobReply& part : loaded) {
    if (const auto* error = std::get_if<Error>(&part)) return BadInput(error->message);
  }
  if (!c.model.dense.empty()) {
    const Status dense = model->LoadDense();
    DSLIDE_RETURN_IF_ERROR(dense);
  }
  return model;
}

Status Inference::AdjustLogits(float rare) {
  const Result<StoredAdjustment> stored = LoadAdjustmentOf(directory_, config_.model.labels, rare);
  DSLIDE_RETURN_IF_ERROR(stored);
  float weight = stored->adjustment.At(rare);
  if (name_ranking_ != nullptr) {
    const float more = weight - stored->adjustment.usual;
    name_ranking_ = std::make_shared<const NameRanking>(name_ranking_->WithRare(more));
    weight = stored->adjustment.usual;
  }
  if (stored->counts.empty() || weight == 0.0f) return {};
  const BiasShift shift(stored->counts, weight);
  pool_->RunOnAll([&](Executor& executor) -> JobReply {
    Layer& layer = executor.output().layer();
    for (uint32_t row = 0; row < layer.map().rows(); ++row) {
      const uint32_t label = layer.map().Global(row);
      if (label != SlotMap::kNone) layer.ShiftBias(row, -shift[label]);
    }
    return Done{};
  });
  return {};
}

Status Inference::LoadDense() {
  EmbedRequest request;
  request.features.EndRow();  // a sample without features
  request.dense = true;
  Result<Body> reply = Call(Body(std::move(request)));
  DSLIDE_RETURN_IF_ERROR(reply);
  LayerRows rows = *std::move(std::get<EmbedReply>(*reply).dense);
  dense_ = std::make_unique<const DenseWeights>(config_.model, std::move(rows.values));
  return {};
}

Result<TopKReply> Inference::Rank(const SparseRows& features, uint32_t k, Search search,
                                  bool exclude_own_features) {
  if (pool_ == nullptr) {
    if (!ScoresAllNeurons(search)) {
      return BadInput(
          fmt::format("--search lsh: {} has no hash tables; name the run directory", directory_));
    }
    Result<RankedLabels> ranked = RankByFile(features, k, search, exclude_own_features, false);
    DSLIDE_RETURN_IF_ERROR(ranked);
    return std::move(ranked->best);
  }
  Result<Matrix> hidden = Embed(features);
  DSLIDE_RETURN_IF_ERROR(hidden);
  TopKRequest request;
  request.hidden = *std::move(hidden);
  request.k = k;
  request.search = search;
  for (uint32_t i = 0; exclude_own_features && i < features.rows(); ++i) {
    const std::vector<uint32_t> own = OwnLabels(features.Ids(i));
    request.excluded.ids.insert(request.excluded.ids.end(), own.begin(), own.end());
    request.excluded.EndRow();
  }
  Result<Body> ranked = Call(Body(std::move(request)));
  DSLIDE_RETURN_IF_ERROR(ranked);
  return std::get<TopKReply>(std::move(*ranked));
}

Result<RankedLabels> Inference::RankWithProbabilities(const SparseRows& features, uint32_t k,
                                                      Search search, bool exclude_own_features) {
  DSLIDE_CHECK(pool_ == nullptr && ScoresAllNeurons(search));
  return RankByFile(features, k, search, exclude_own_features, true);
}

Result<Matrix> Inference::Embed(const SparseRows& features) {
  const float divisor = ValueDivisor(config_.train);
  SparseRows with_bias;
  for (uint32_t i = 0; i < features.rows(); ++i) {
    const auto ids = features.Ids(i);
    const auto values = features.Values(i);
    with_bias.ids.insert(with_bias.ids.end(), ids.begin(), ids.end());
    for (const float value : values) with_bias.values.push_back(value / divisor);
    with_bias.ids.push_back(config_.model.features);
    with_bias.values.push_back(1.0f);
    with_bias.EndRow();
  }
  const Body embed = EmbedRequest{{}, false, std::move(with_bias)};
  Result<Body> embedded = Call(embed);
  DSLIDE_RETURN_IF_ERROR(embedded);
  Matrix hidden = InFloats(std::get<EmbedReply>(std::move(*embedded)).partial);
  if (IsLinear(config_.model)) return hidden;
  for (float& h : hidden.data) h = std::max(h, 0.0f);
  if (dense_ != nullptr) return dense_->Last(hidden);
  return hidden;
}

std::string Inference::LabelName(uint32_t label) const {
  if (preprocessor_ != nullptr) return preprocessor_->LabelName(label);
  return label < label_names_.size() ? label_names_[label] : std::to_string(label);
}

std::vector<Search> Inference::searches() const {
  std::vector<Search> searches = SearchesOf(config_.model);
  if (pool_ == nullptr) std::erase_if(searches, std::not_fn(ScoresAllNeurons));
  return searches;
}

std::vector<uint32_t> Inference::OwnLabels(std::span<const uint32_t> features) const {
  if (preprocessor_ != nullptr) return preprocessor_->OwnLabels(features);
  return {features.begin(), features.end()};
}

Result<RankedLabels> Inference::RankByFile(const SparseRows& features, uint32_t k, Search search,
                                           bool exclude_own_features, bool probabilities) {
  const size_t rows = features.rows();
  std::vector<Result<RankedLabels>> parts(rankers_.size(), RankedLabels());
  InParallel(rankers_.size(), [&](size_t part) {
    SparseRows own;
    std::vector<LabelFilter> filters;
    for (size_t i = part * rows / parts.size(); i < (part + 1) * rows / parts.size(); ++i) {
      const auto ids = features.Ids(i);
      const auto values = features.Values(i);
      own.ids.insert(own.ids.end(), ids.begin(), ids.end());
      own.values.insert(own.values.end(), values.begin(), values.end());
      own.EndRow();
      if (!exclude_own_features) continue;
      filters.push_back({{}, OwnLabels(ids)});
      std::ranges::sort(filters.back().denied);
    }
    RankRequest request;
    request.k = k;
    request.search = search == Search::kExact ? ModelSearch::kExact : ModelSearch::kScan;
    request.filters = filters;
    request.probabilities = probabilities;
    const Result<Matrix> hidden = rankers_[part].Embed(own);
    if (hidden.ok()) {
      parts[part] = rankers_[part].Rank(*hidden, request);
    } else {
      parts[part] = hidden.error();
    }
  });
  RankedLabels all;
  for (const Result<RankedLabels>& part : parts) {
    DSLIDE_RETURN_IF_ERROR(part);
    for (size_t i = 0; i + 1 < part->best.offsets.size(); ++i) part->AppendRow(i, &all);
  }
  return all;
}

void Inference::ForEachRow(const std::function<void(uint32_t, const float*)>& input,
                           const std::function<void(uint32_t, const float*, float)>& neuron) {
  pool_->RunOnAll([&](Executor& executor) -> JobReply {
    ForEachRowOf(executor.input().layer(),
                 [&](uint32_t id, const float* weights, float) { input(id, weights); });
    ForEachRowOf(executor.output().layer(), neuron);
    return Done{};
  });
}

Result<Body> Inference::Call(const Body& request) {
  const auto job = [&request](Executor& executor) { return executor.Handle({}, request); };
  Body reply = GatherReplies(request, BodiesOf(pool_->RunOnAll(job)));
  if (const auto* error = std::get_if<ErrorReply>(&reply)) return Failed(error->text);
  return reply;
}

}  // namespace dslide
