#include "tools/dslide/commands/ranking_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/data/measures/metrics.h"
#include "server/executor/executor.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/model/format_options.h"
#include "tools/dslide/model/model_argument.h"
#include "tools/dslide/model/model_source.h"
#include "tools/dslide/model/search_choice.h"

namespace dslide {
namespace {

// Checks that the data file and the task fit the model.
Status CheckFit(const RankingTask& task, const XcHeader* header, const Inference& model) {
  const ModelConfig& m = model.config().model;
  // Matrices may lack the one of labels.
  const bool unlabelled = header != nullptr && header->num_labels == 0;
  if (unlabelled && task.wants_labels) {
    return BadInput(fmt::format("{}: has no labels (name both matrices, X.npz,Y.npz)", task.data));
  }
  if (header != nullptr &&
      (header->num_features != m.features || (header->num_labels != m.labels && !unlabelled))) {
    return BadInput(fmt::format("{}: {} and {}, but the model in {} has {} and {}", task.data,
                                Plural(header->num_features, "feature"),
                                Plural(header->num_labels, "label"), model.directory(), m.features,
                                m.labels));
  }
  if (task.search && !ScoresAllNeurons(*task.search) && !HasNeuronIndex(m)) {
    return BadInput(
        fmt::format("--search lsh: the model in {} was trained without hash tables (model.active)",
                    model.directory()));
  }
  return {};
}

}  // namespace

CommandLine RankingCommandLine(const std::string& name, const std::string& summary) {
  CommandLine line(fmt::format("dslide {} MODEL --data FILE [options]", name), summary);
  DeclareModel(&line);
  line.Required("data", "FILE",
                "samples in the form of the training data, plain, .gz or .zst; -: standard input");
  line.Option("top-k", "K", "labels a sample", "5");
  line.Option("search", "auto|" + SearchNames(),
              "score all labels, all in 8 bits first, or those in hash buckets; auto: the cheapest",
              "auto");
  line.Flag("exclude-own-features",
            "rank without labels that the sample has as features or words already");
  line.Flag("json", "print JSON");
  DeclareRanking(&line);
  DeclareFormatOptions(&line);
  return line;
}

Result<RankingTask> RankingTaskFrom(const ParsedArguments& arguments) {
  RankingTask task;
  const Result<NamedModel> model = ModelFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(model);
  task.checkpoint = model->path;
  const Result<std::string> data = InputPath(arguments.Get("data"));
  DSLIDE_RETURN_IF_ERROR(data);
  task.data = *data;
  task.output = arguments.Get("output");
  DSLIDE_RETURN_IF_ERROR(CheckOutputs({task.data, task.checkpoint}, {{"output", task.output}}));
  const Result<NamedFormat> format = NamedFormatFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(format);
  task.format = *format;
  task.json = arguments.Has("json");
  task.exclude_own_features = arguments.Has("exclude-own-features");
  const Result<uint32_t> top_k = arguments.Number("top-k", 1, kMaxTopK);
  DSLIDE_RETURN_IF_ERROR(top_k);
  task.top_k = *top_k;
  task.depth = std::max<uint32_t>(task.top_k, kMaxMetricK);
  const std::string search = arguments.Get("search");
  task.search = SearchByName(search);
  if (!task.search && search != "auto") {
    return BadInput(fmt::format("--search {}: must be one of auto|{}", search, SearchNames()));
  }
  const Result<RankingChoice> ranking = RankingFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(ranking);
  task.ranking = *ranking;
  return task;
}

Result<RankingRun> RankingRun::Open(RankingTask task) {
  Result<std::unique_ptr<Inference>> model = Inference::Load(
      task.checkpoint,
      {task.label_names, task.probabilities, task.ranking.rare, task.ranking.by_model});
  DSLIDE_RETURN_IF_ERROR(model);
  DSLIDE_RETURN_IF_ERROR(
      CheckOutputs({(*model)->config().train.label_names}, {{"output", task.output}}));
  ModelInput input = (*model)->input();
  ApplyFormat(task.format, &input);
  Result<SampleReader> reader = SampleReader::Open(
      task.data, input, /*skip_blank=*/task.wants_labels,
      task.wants_labels ? SampleReader::Lines::kExpanded : SampleReader::Lines::kWhole);
  DSLIDE_RETURN_IF_ERROR(reader);
  if (!reader->note().empty()) fmt::print(stderr, "{}: {}\n", task.data, reader->note());
  DSLIDE_RETURN_IF_ERROR(CheckFit(task, reader->header(), **model));
  if (const NameRanking* names = (*model)->name_ranking(); names != nullptr) {
    reader->FindNames(names->matcher());
  }
  return RankingRun(std::move(task), std::move(*model), std::move(*reader));
}

bool RankingRun::ExcludesOwnFeatures() const {
  return task_.exclude_own_features || config().train.exclude_own_features;
}

// Reads the next at most kMaxInferenceBatch samples; no rows at the end.
Result<SampleBatch> RankingRun::NextBatch() {
  SampleBatch batch;
  while (batch.features.rows() < kMaxInferenceBatch) {
    const Result<std::optional<SampleView>> sample = reader_.Next();
    DSLIDE_RETURN_IF_ERROR(sample);
    if (!*sample) break;
    const SampleView& s = **sample;
    batch.features.ids.insert(batch.features.ids.end(), s.features.begin(), s.features.end());
    batch.features.values.insert(batch.features.values.end(), s.values.begin(), s.values.end());
    batch.features.EndRow();
    batch.labels.ids.insert(batch.labels.ids.end(), s.labels.begin(), s.labels.end());
    batch.labels.EndRow();
    if (model_->name_ranking() != nullptr) batch.names.Add(reader_.names());
    batch.ids.push_back(reader_.id());
    batch.errors.push_back(reader_.error());
  }
  return batch;
}

// The cheapest search for some samples of a batch, spread over it; says which.
Result<Search> RankingRun::CheapestSearch(const SampleBatch& batch) {
  constexpr uint32_t kTried = 64;
  constexpr uint32_t kLeastLabels = 10;
  const uint32_t rows = batch.features.rows();
  const uint32_t tried = std::min(rows, kTried);
  SparseRows some;
  for (uint32_t i = 0; i < tried; ++i) {
    const auto ids = batch.features.Ids(i * rows / tried);
    const auto values = batch.features.Values(i * rows / tried);
    some.ids.insert(some.ids.end(), ids.begin(), ids.end());
    some.values.insert(some.values.end(), values.begin(), values.end());
    some.EndRow();
  }
  const Result<SearchChoice> choice = ChooseSearch(
      model_->searches(),
      [&](Search search) {
        return model_->Rank(some, std::max(task_.top_k, kLeastLabels), search,
                            ExcludesOwnFeatures());
      },
      [] { return UsageOfThisProcess().cpu_seconds; });
  DSLIDE_RETURN_IF_ERROR(choice);
  fmt::print(stderr, "{}\n", choice->Text());
  return choice->search;
}

std::string RankingRun::UnreadableNote() const {
  if (task_.wants_labels) return unreadable().Note(task_.data);
  return fmt::format("{}: {} of {} cannot be read, as {} in the output; the first: {}", task_.data,
                     unreadable().count(), Plural(unreadable().records(), "record"),
                     unreadable().count() == 1 ? "its line says" : "their lines say",
                     unreadable().first());
}

Result<RankedLabels> RankingRun::Rank(const SampleBatch& batch) {
  const NameRanking* names = model_->name_ranking();
  if (names == nullptr) return RankByModel(batch.features, task_.depth);
  const Result<RankedLabels> by_model =
      RankByModel(batch.features, std::max(task_.depth, kModelCandidates));
  DSLIDE_RETURN_IF_ERROR(by_model);
  RankedLabels ranked;
  for (uint32_t i = 0; i < batch.features.rows(); ++i) {
    LabelFilter filter;
    if (ExcludesOwnFeatures()) {
      filter.denied = model_->preprocessor()->OwnLabels(batch.features.Ids(i));
      std::ranges::sort(filter.denied);
    }
    names->AppendRow(*by_model, i, batch.names[i], &filter, task_.depth, &ranked);
  }
  return ranked;
}

Result<RankedLabels> RankingRun::RankByModel(const SparseRows& features, uint32_t depth) {
  if (task_.probabilities) {
    return model_->RankWithProbabilities(features, depth, *task_.search, ExcludesOwnFeatures());
  }
  Result<TopKReply> best = model_->Rank(features, depth, *task_.search, ExcludesOwnFeatures());
  DSLIDE_RETURN_IF_ERROR(best);
  return RankedLabels{*std::move(best), {}};
}

Status RankingRun::RankAll(
    const std::function<void(const SampleBatch&, const RankedLabels&)>& each) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const Result<SampleBatch> batch = NextBatch();
    DSLIDE_RETURN_IF_ERROR(batch);
    if (batch->features.rows() == 0) break;
    if (!task_.search && task_.probabilities) task_.search = Search::kExact;
    if (!task_.search) {
      const Result<Search> search = CheapestSearch(*batch);
      DSLIDE_RETURN_IF_ERROR(search);
      task_.search = *search;
    }
    const Result<RankedLabels> ranked = Rank(*batch);
    DSLIDE_RETURN_IF_ERROR(ranked);
    each(*batch, *ranked);
  }
  if (const uint64_t left_out = reader_.left_out(); left_out > 0) {
    fmt::print(stderr, "{}\n", LeftOutLine(task_.data, left_out, config().model.features));
  }
  if (unreadable().count() > 0) fmt::print(stderr, "{}\n", UnreadableNote());
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {};
}

}  // namespace dslide
