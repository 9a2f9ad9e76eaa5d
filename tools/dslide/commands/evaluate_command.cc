// dslide evaluate and dslide predict: a checkpoint, a data file, no cluster.
#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/data/metrics.h"
#include "common/text/samples.h"
#include "server/executor/executor.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/model/inference.h"
#include "tools/dslide/model/prediction_file.h"
#include "tools/dslide/model/search_choice.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Task {
  std::string checkpoint, data, output;
  uint32_t top_k = 5;
  uint32_t show = 0;
  std::optional<Search> search;  // nullopt: what is the cheapest on the first samples
  bool json = false;
  bool exclude_own_features = false;
};

Result<Task> TaskFrom(const ParsedArguments& arguments) {
  Task task;
  task.checkpoint = arguments.Get("checkpoint");
  task.data = arguments.Get("data");
  task.output = arguments.Get("output");
  task.json = arguments.Has("json");
  task.exclude_own_features = arguments.Has("exclude-own-features");
  const Result<uint32_t> top_k = arguments.Number("top-k", 1, kMaxTopK);
  DSLIDE_RETURN_IF_ERROR(top_k);
  task.top_k = *top_k;
  if (arguments.Declares("show")) {
    const Result<uint32_t> show = arguments.Number("show", 0, 1000000);
    DSLIDE_RETURN_IF_ERROR(show);
    task.show = *show;
  }
  const std::string search = arguments.Get("search");
  task.search = SearchByName(search);
  if (!task.search && search != "auto") {
    return BadInput(fmt::format("--search {}: must be one of auto|{}", search, SearchNames()));
  }
  return task;
}

// Checks that the data file and the task fit the model.
Status CheckFit(const Task& task, const XcHeader* header, const Inference& model) {
  const ModelConfig& m = model.config().model;
  if (header != nullptr && (header->num_features != m.features || header->num_labels != m.labels)) {
    return BadInput(fmt::format("{}: {} and {}, but the model in {} has {} and {}", task.data,
                                Plural(header->num_features, "feature"),
                                Plural(header->num_labels, "label"), model.directory(), m.features,
                                m.labels));
  }
  if (task.search == Search::kLsh && m.active != ActiveSet::kLsh) {
    return BadInput(
        fmt::format("--search lsh: the model in {} was trained without hash tables (model.active)",
                    model.directory()));
  }
  return {};
}

bool ExcludesOwnFeatures(const Task& task, const Inference& model) {
  return task.exclude_own_features || model.config().train.exclude_own_features;
}

// Reads the next at most kMaxInferenceBatch samples; no rows at the end.
struct SampleBatch {
  SparseRows features;
  SparseRows labels;
};
Result<SampleBatch> NextBatch(SampleReader* reader) {
  SampleBatch batch;
  while (batch.features.rows() < kMaxInferenceBatch) {
    const Result<std::optional<SampleView>> sample = reader->Next();
    DSLIDE_RETURN_IF_ERROR(sample);
    if (!*sample) break;
    const SampleView& s = **sample;
    batch.features.ids.insert(batch.features.ids.end(), s.features.begin(), s.features.end());
    batch.features.values.insert(batch.features.values.end(), s.values.begin(), s.values.end());
    batch.features.EndRow();
    batch.labels.ids.insert(batch.labels.ids.end(), s.labels.begin(), s.labels.end());
    batch.labels.EndRow();
  }
  return batch;
}

// The cheapest search for some samples of a batch, spread over it; says which.
Result<Search> CheapestSearch(const Task& task, const SampleBatch& batch, Inference* model) {
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
      SearchesOf(model->config().model),
      [&](Search search) {
        return model->Rank(some, std::max(task.top_k, kLeastLabels), search,
                           ExcludesOwnFeatures(task, *model));
      },
      [] { return UsageOfThisProcess().cpu_seconds; });
  DSLIDE_RETURN_IF_ERROR(choice);
  fmt::print(stderr, "{}\n", choice->Text());
  return choice->search;
}

// Ranks all samples of a file; `each` sees every batch with its predictions. Sets task->search.
template <typename Each>
Status RankFile(Task* task, Inference* model, SampleReader* reader, const Each& each) {
  while (true) {
    const Result<SampleBatch> batch = NextBatch(reader);
    DSLIDE_RETURN_IF_ERROR(batch);
    if (batch->features.rows() == 0) return {};
    if (!task->search) {
      const Result<Search> search = CheapestSearch(*task, *batch, model);
      DSLIDE_RETURN_IF_ERROR(search);
      task->search = *search;
    }
    const Result<TopKReply> ranked =
        model->Rank(batch->features, std::max<uint32_t>(task->top_k, kMaxMetricK), *task->search,
                    ExcludesOwnFeatures(*task, *model));
    DSLIDE_RETURN_IF_ERROR(ranked);
    DSLIDE_RETURN_IF_ERROR(each(*batch, *ranked));
  }
}

// Prints samples with their predicted and true labels by name.
class SampleViewer {
 public:
  SampleViewer(uint32_t count, std::vector<std::string> names)
      : left_(count), names_(std::move(names)) {}

  void Show(const SampleBatch& batch, const TopKReply& ranked) {
    for (size_t i = 0; left_ > 0 && i < batch.labels.rows(); ++i, --left_, ++number_) {
      fmt::print("test sample {}\n  predicted: {}\n  true:      {}\n", number_,
                 Names(ranked.Ids(i).first(std::min<size_t>(5, ranked.Ids(i).size()))),
                 Names(batch.labels.Ids(i)));
    }
  }

 private:
  std::string Names(std::span<const uint32_t> labels) const {
    std::string text;
    for (const uint32_t label : labels) {
      const bool named = label < names_.size() && !names_[label].empty();
      text += (text.empty() ? "" : " | ") + (named ? names_[label] : std::to_string(label));
    }
    return text.empty() ? "(none)" : text;
  }

  uint32_t left_;
  uint32_t number_ = 1;
  std::vector<std::string> names_;
};

void PrintMetrics(const Task& task, const RankingMetrics& m, double seconds, bool psp) {
  if (task.json) {
    OrderedJson json;
    for (const int k : {1, 3, 5}) {
      json["p_at_" + std::to_string(k)] = m.precision[k - 1];
      json["ndcg_at_" + std::to_string(k)] = m.ndcg[k - 1];
      if (psp) json["psp_at_" + std::to_string(k)] = m.propensity_precision[k - 1];
    }
    json["samples"] = m.samples;
    json["seconds"] = seconds;
    json["search"] = SearchName(task.search.value_or(Search::kExact));
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("        @1     @3     @5\n");
  const auto row = [](const char* name, const double(&values)[kMaxMetricK]) {
    fmt::print("{:<5}{:6.2f} {:6.2f} {:6.2f}\n", name, 100 * values[0], 100 * values[2],
               100 * values[4]);
  };
  row("P", m.precision);
  row("nDCG", m.ndcg);
  if (psp) row("PSP", m.propensity_precision);
  fmt::print("{} in {:.1f} s ({:.0f} a second)\n", Plural(m.samples, "sample"), seconds,
             static_cast<double>(m.samples) / std::max(seconds, 1e-9));
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The common start of both commands: the task, its samples and the model, which fit each other.
struct Opened {
  Task task;
  std::unique_ptr<Inference> model;
  SampleReader reader;
};
Result<Opened> Open(const ParsedArguments& arguments) {
  Result<Task> task = TaskFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(task);
  Result<std::unique_ptr<Inference>> model = Inference::Load(task->checkpoint);
  DSLIDE_RETURN_IF_ERROR(model);
  Result<SampleReader> reader = SampleReader::Open(task->data, (*model)->preprocessor());
  DSLIDE_RETURN_IF_ERROR(reader);
  DSLIDE_RETURN_IF_ERROR(CheckFit(*task, reader->header(), **model));
  return Opened{std::move(*task), std::move(*model), std::move(*reader)};
}

Status Evaluate(const ParsedArguments& arguments) {
  Result<Opened> opened = Open(arguments);
  DSLIDE_RETURN_IF_ERROR(opened);
  auto& [task, model, reader] = *opened;

  const TrainConfig& train = model->config().train;
  const std::string train_path = arguments.Has("train") ? arguments.Get("train") : train.data;
  InversePropensities propensities;
  if (const Result<Dataset> data = ReadSamples(train_path, model->preprocessor()); data.ok()) {
    propensities = InversePropensities(*data);
  } else if (arguments.Has("train")) {
    return data.error();
  } else if (!task.json) {
    fmt::print("without PSP: {} (name the training file by --train)\n", data.error().message);
  }
  std::vector<std::string> names;
  if (task.show > 0) {
    const std::string path =
        arguments.Has("label-names") ? arguments.Get("label-names") : train.label_names;
    if (model->preprocessor() != nullptr) {
      names = model->preprocessor()->label_names();
    } else if (!path.empty()) {
      Result<std::vector<std::string>> read = ReadLabelNames(path, model->config().model.labels);
      DSLIDE_RETURN_IF_ERROR(read);
      names = std::move(*read);
    }
  }
  Result<PredictionFile> output = PredictionFile::Create(task.output, task.json);
  DSLIDE_RETURN_IF_ERROR(output);
  SampleViewer viewer(task.show, std::move(names));
  RankingEvaluator evaluator(propensities);
  const auto start = std::chrono::steady_clock::now();
  DSLIDE_RETURN_IF_ERROR(RankFile(&task, model.get(), &reader,
                                  [&](const SampleBatch& batch, const TopKReply& ranked) -> Status {
                                    for (size_t i = 0; i < batch.labels.rows(); ++i) {
                                      evaluator.Add(ranked.Ids(i), batch.labels.Ids(i));
                                    }
                                    output->Write(ranked, task.top_k);
                                    viewer.Show(batch, ranked);
                                    return {};
                                  }));
  DSLIDE_RETURN_IF_ERROR(output->Finish());
  PrintMetrics(task, evaluator.Result(), SecondsSince(start), propensities.known());
  return {};
}

Status Predict(const ParsedArguments& arguments) {
  Result<Opened> opened = Open(arguments);
  DSLIDE_RETURN_IF_ERROR(opened);
  auto& [task, model, reader] = *opened;
  Result<PredictionFile> output = task.output.empty()
                                      ? PredictionFile::StandardOutput(task.json)
                                      : PredictionFile::Create(task.output, task.json);
  DSLIDE_RETURN_IF_ERROR(output);
  uint64_t samples = 0;
  const auto start = std::chrono::steady_clock::now();
  DSLIDE_RETURN_IF_ERROR(RankFile(&task, model.get(), &reader,
                                  [&](const SampleBatch& batch, const TopKReply& ranked) -> Status {
                                    output->Write(ranked, task.top_k);
                                    samples += batch.features.rows();
                                    return {};
                                  }));
  DSLIDE_RETURN_IF_ERROR(output->Finish());
  const double seconds = SecondsSince(start);
  fmt::print(stderr, "{} in {:.1f} s ({:.0f} a second)\n", Plural(samples, "prediction"), seconds,
             static_cast<double>(samples) / std::max(seconds, 1e-9));
  return {};
}

CommandLine CommonLine(const std::string& name, const std::string& summary) {
  CommandLine line(fmt::format("dslide {} --checkpoint DIRECTORY --data FILE [options]", name),
                   summary);
  line.Required("checkpoint", "DIRECTORY", "a checkpoint, or the run directory that holds it");
  line.Required("data", "FILE", "samples in the XC repository's text format, plain, .gz or .zst");
  line.Option("top-k", "K", "labels a sample", "5");
  line.Option("search", "auto|" + SearchNames(),
              "score all labels, all in 8 bits first, or those in hash buckets; auto: the cheapest",
              "auto");
  line.Flag("exclude-own-features", "rank without label i where the sample has feature i");
  line.Flag("json", "print JSON");
  return line;
}

}  // namespace

int EvaluateCommand(int argc, char** argv) {
  CommandLine line = CommonLine("evaluate", "Measures a trained model on a file with true labels.");
  line.Option("output", "FILE", "also write the predictions");
  line.Option("train", "FILE", "training file for PSP, if it moved since training");
  line.Option("show", "N", "print the first N samples with predicted and true label names", "0");
  line.Option("label-names", "FILE", "names of the labels, if they moved since training");
  return RunExecutable("dslide evaluate", line, argc, argv, Evaluate);
}

int PredictCommand(int argc, char** argv) {
  CommandLine line =
      CommonLine("predict", "Writes the best labels of each sample, one line a sample.");
  line.Option("output", "FILE", "where to write; standard output if not given");
  return RunExecutable("dslide predict", line, argc, argv, Predict);
}

}  // namespace dslide
