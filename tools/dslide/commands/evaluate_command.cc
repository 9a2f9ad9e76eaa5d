// dslide evaluate: measures of a checkpoint on a file with true labels.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "common/data/measures/label_counts.h"
#include "common/data/measures/measures.h"
#include "common/data/measures/metrics.h"
#include "common/data/text_stream.h"
#include "common/text/samples.h"
#include "server/executor/executor.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/commands/ranking_run.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/model/label_report.h"
#include "tools/dslide/model/measure_report.h"
#include "tools/dslide/model/prediction_file.h"
#include "tools/dslide/model/sample_file.h"
#include "tools/dslide/model/search_choice.h"

namespace dslide {
namespace {

// The k of P@k and the other measures; --at adds some, so many that the table fits a terminal.
constexpr uint32_t kCutoffs[] = {1, 3, 5, 10};
constexpr size_t kMaxFurtherCutoffs = 4;

struct EvaluateTask {
  RankingTask ranking;
  std::string per_sample, per_label;  // "": not written
  std::string train;                  // "": the file that the model was trained on
  std::FILE* messages = stdout;       // where the measures are printed
  std::vector<uint32_t> cutoffs;      // ascending
  uint32_t show = 0;
  bool rare_table = false;
};

// The table's columns, ascending.
Result<std::vector<uint32_t>> CutoffsFrom(const ParsedArguments& arguments) {
  const Result<std::vector<uint32_t>> further = arguments.Numbers("at", 1, kMaxTopK);
  DSLIDE_RETURN_IF_ERROR(further);
  if (further->size() > kMaxFurtherCutoffs) {
    return BadInput(
        fmt::format("--at: given {} times, at most {}", further->size(), kMaxFurtherCutoffs));
  }
  std::vector<uint32_t> cutoffs(std::begin(kCutoffs), std::end(kCutoffs));
  cutoffs.insert(cutoffs.end(), further->begin(), further->end());
  std::sort(cutoffs.begin(), cutoffs.end());
  cutoffs.erase(std::unique(cutoffs.begin(), cutoffs.end()), cutoffs.end());
  return cutoffs;
}

std::vector<OutputOption> OutputsOf(const EvaluateTask& task) {
  return {{"output", task.ranking.output},
          {"per-sample", task.per_sample},
          {"per-label", task.per_label}};
}

Result<EvaluateTask> TaskFrom(const ParsedArguments& arguments) {
  EvaluateTask task;
  Result<RankingTask> ranking = RankingTaskFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(ranking);
  task.ranking = std::move(*ranking);
  task.ranking.wants_labels = true;
  const Result<uint32_t> show = arguments.Number("show", 0, 1000000);
  DSLIDE_RETURN_IF_ERROR(show);
  task.show = *show;
  if (task.show > 0 && task.ranking.json) return BadInput("--show: prints text; leave --json out");
  task.rare_table = arguments.Has("rare-table");
  for (const char* other : {"rare", "show", "output", "per-sample", "per-label"}) {
    if (task.rare_table && arguments.Has(other)) {
      return BadInput(fmt::format("--rare-table: prints a table alone; leave --{} out", other));
    }
  }
  Result<std::vector<uint32_t>> cutoffs = CutoffsFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(cutoffs);
  task.cutoffs = std::move(*cutoffs);
  task.ranking.depth = std::max(task.ranking.depth, task.cutoffs.back());
  task.per_sample = arguments.Get("per-sample");
  task.per_label = arguments.Get("per-label");
  task.messages = MessagesBeside({task.ranking.output, task.per_sample, task.per_label});
  const Result<std::string> train = InputPath(arguments.Get("train"));
  DSLIDE_RETURN_IF_ERROR(train);
  task.train = *train;
  if (!task.train.empty() && task.train == task.ranking.data && IsReadOnce(task.train)) {
    return BadInput(fmt::format("--train {}: is read once, as --data", task.train));
  }
  task.ranking.label_names = arguments.Get("label-names");
  DSLIDE_RETURN_IF_ERROR(CheckOutputs(
      {task.ranking.data, task.ranking.checkpoint, task.train, task.ranking.label_names},
      OutputsOf(task)));
  return task;
}

// Prints samples with their predicted and true labels by name.
class SampleViewer {
 public:
  // The model must outlive the object.
  SampleViewer(std::FILE* out, uint32_t count, const Inference* model)
      : out_(out), left_(count), model_(*model) {}

  void Show(const SampleBatch& batch, const TopKReply& ranked) {
    for (size_t i = 0; left_ > 0 && i < batch.labels.rows(); ++i, --left_, ++number_) {
      fmt::print(out_, "test sample {}\n  predicted: {}\n  true:      {}\n", number_,
                 Names(ranked.Ids(i).first(std::min<size_t>(5, ranked.Ids(i).size()))),
                 Names(batch.labels.Ids(i)));
    }
  }

 private:
  std::string Names(std::span<const uint32_t> labels) const {
    std::string text;
    for (const uint32_t label : labels) {
      text += (text.empty() ? "" : " | ") + model_.LabelName(label);
    }
    return text.empty() ? "(none)" : text;
  }

  std::FILE* out_;
  uint32_t left_;
  const Inference& model_;
  uint32_t number_ = 1;
};

LabelNamer NamerOf(const Inference& model) {
  if (model.label_names() == nullptr) return nullptr;
  return [&model](uint32_t label) { return model.LabelName(label); };
}

// How often samples of the data have a label, each time counted.
struct TrueLabels {
  uint64_t all = 0;
  uint64_t unknown = 0;  // that the model lacks
};

void PrintMeasures(std::FILE* out, const RankingRun& run, const Measures& m,
                   const FrequencyBands& bands, const TrueLabels& labels) {
  const double seconds = run.seconds();
  if (run.task().json) {
    nlohmann::ordered_json json = MeasureJson(m, bands);
    json["labels"] = run.config().model.labels;
    json["unknown_labels"] = labels.unknown;
    json["unreadable_records"] = run.unreadable().count();
    json["seconds"] = seconds;
    json["search"] = SearchName(run.task().search.value_or(Search::kExact));
    fmt::print(out, "{}\n", json.dump());
    return;
  }
  const std::string without = m.samples_without_labels == 0
                                  ? ""
                                  : fmt::format(", {} without labels", m.samples_without_labels);
  if (labels.unknown > 0) {
    fmt::print(out,
               "{} of the {} true labels, summed over samples, are unknown to the model: it cannot "
               "predict them,\nand recall counts them as missed\n",
               labels.unknown, labels.all);
  }
  fmt::print(out, "{}{}{} in {:.1f} s ({:.0f} a second)\n", MeasureTable(m, bands),
             Plural(m.samples, "sample"), without, seconds,
             static_cast<double>(m.samples) / std::max(seconds, 1e-9));
}

// What the training file tells: how rare its labels are. All unknown if it cannot be read.
struct Frequencies {
  InversePropensities propensities;
  FrequencyBands bands;
  // Of a model of numbers, by id: the labels that train.min_label_samples left out, which kept
  // their ids. Empty: none.
  std::vector<bool> left_out;
};

std::vector<bool> LeftOutLabels(const std::vector<LabelCount>& counts, const Config& config) {
  if (config.train.min_label_samples == 1) return {};
  std::vector<bool> left_out(config.model.labels, true);
  for (const LabelCount& c : counts) {
    if (c.label < left_out.size()) left_out[c.label] = c.count < config.train.min_label_samples;
  }
  return left_out;
}

Result<Frequencies> ReadFrequencies(const EvaluateTask& task, const Inference& model) {
  const bool json = task.ranking.json;
  const bool is_given = !task.train.empty();
  const std::string& path = is_given ? task.train : model.config().train.data;
  const Result<Dataset> train = !is_given && IsReadOnce(path)
                                    ? Result<Dataset>(BadInput(path + ": is read once"))
                                    : ReadLabels(path, model.input());
  const bool of_numbers = model.preprocessor() == nullptr;
  if (train.ok()) {
    const std::vector<LabelCount> counts = CountLabels(*train);
    return Frequencies{InversePropensities(*train), FrequencyBands(counts),
                       of_numbers ? LeftOutLabels(counts, model.config()) : std::vector<bool>()};
  }
  if (is_given) return train.error();
  const bool may_lack = of_numbers && model.config().train.min_label_samples > 1;
  if (!json || may_lack) {
    fmt::print(json ? stderr : task.messages,
               "without PSP, PSnDCG and bands{}: {} (name the training file by --train)\n",
               may_lack ? ", and labels that training left out count as known" : "",
               train.error().message);
  }
  return Frequencies{};
}

// Measures the model with several values of --rare.
Status EvaluateRare(const EvaluateTask& task) {
  if (IsReadOnce(task.ranking.data)) {
    return BadInput(fmt::format("--rare-table: reads --data several times, but {} is read once",
                                task.ranking.data));
  }
  std::optional<Frequencies> frequencies;
  std::vector<RareMeasures> rows;
  RankingTask ranking = task.ranking;
  for (const float rare : {1.0f, 0.75f, 0.5f, 0.25f, 0.0f}) {
    ranking.ranking.rare = rare;
    Result<RankingRun> run = RankingRun::Open(ranking);
    DSLIDE_RETURN_IF_ERROR(run);
    if (!frequencies) {
      Result<Frequencies> read = ReadFrequencies(task, run->model());
      DSLIDE_RETURN_IF_ERROR(read);
      frequencies = *std::move(read);
    }
    MeasureAccumulator measures(task.cutoffs, frequencies->propensities, frequencies->bands);
    DSLIDE_RETURN_IF_ERROR(run->RankAll([&](const SampleBatch& batch, const RankedLabels& ranked) {
      for (size_t i = 0; i < batch.labels.rows(); ++i) {
        measures.Add(ranked.best.Ids(i), batch.labels.Ids(i));
      }
    }));
    ranking.search = run->task().search;
    rows.push_back({rare, measures.Result()});
    const Measures& result = rows.back().measures;
    if (result.samples_without_labels == result.samples) {
      return NothingToMeasure(ranking.data, result.samples, run->look().KeyInPlaceOfLabels());
    }
  }
  std::ranges::reverse(rows);
  if (!ranking.json) {
    fmt::print("{}", RareTable(rows));
    return {};
  }
  nlohmann::ordered_json json;
  for (const RareMeasures& row : rows) {
    json.push_back({{"rare", row.rare}});
    json.back().update(MeasureJson(row.measures, frequencies->bands));
  }
  fmt::print("{}\n", json.dump());
  return {};
}

Status Evaluate(const ParsedArguments& arguments) {
  const Result<EvaluateTask> task = TaskFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(task);
  if (task->rare_table) return EvaluateRare(*task);
  Result<RankingRun> run = RankingRun::Open(task->ranking);
  DSLIDE_RETURN_IF_ERROR(run);
  const TrainConfig& trained = run->config().train;
  DSLIDE_RETURN_IF_ERROR(CheckOutputs({trained.data, trained.label_names}, OutputsOf(*task)));
  const bool json = task->ranking.json;
  const uint32_t top_k = task->ranking.top_k;
  Result<PredictionFile> output = PredictionFile::Create(
      task->ranking.output, {json, run->model().label_names(), run->model().label_uris()});
  DSLIDE_RETURN_IF_ERROR(output);
  Result<SampleFile> per_sample =
      SampleFile::Create(task->per_sample, top_k, NamerOf(run->model()));
  DSLIDE_RETURN_IF_ERROR(per_sample);
  Result<OutputFile> per_label = OutputFile::Create(task->per_label);
  DSLIDE_RETURN_IF_ERROR(per_label);
  const Result<Frequencies> frequencies = ReadFrequencies(*task, run->model());
  DSLIDE_RETURN_IF_ERROR(frequencies);
  SampleViewer viewer(task->messages, task->show, &run->model());
  TrueLabels labels;
  LabelReport label_report(top_k);
  MeasureAccumulator measures(task->cutoffs, frequencies->propensities, frequencies->bands);
  DSLIDE_RETURN_IF_ERROR(run->RankAll([&](const SampleBatch& batch, const RankedLabels& ranking) {
    const TopKReply& ranked = ranking.best;
    for (size_t i = 0; i < batch.labels.rows(); ++i) {
      measures.Add(ranked.Ids(i), batch.labels.Ids(i));
      if (per_label->IsOpen()) label_report.Add(ranked.Ids(i), batch.labels.Ids(i));
    }
    labels.all += batch.labels.ids.size();
    labels.unknown +=
        static_cast<uint64_t>(std::ranges::count_if(batch.labels.ids, [&](uint32_t id) {
          return id >= run->config().model.labels ||
                 (!frequencies->left_out.empty() && frequencies->left_out[id]);
        }));
    output->Write(ranking, top_k, batch.ids);
    per_sample->Write(batch.labels, ranked);
    viewer.Show(batch, ranked);
  }));
  const Measures result = measures.Result();
  if (result.samples_without_labels == result.samples) {
    return NothingToMeasure(task->ranking.data, result.samples, run->look().KeyInPlaceOfLabels());
  }
  DSLIDE_RETURN_IF_ERROR(output->Finish());
  DSLIDE_RETURN_IF_ERROR(per_sample->Finish());
  if (const std::string without = run->look().WithoutLabels(); !without.empty()) {
    fmt::print(stderr, "{}: {}, and score 0\n", task->ranking.data, without);
  }
  PrintMeasures(task->messages, *run, result, frequencies->bands, labels);
  if (!per_label->IsOpen()) return {};
  const std::vector<LabelRow> rows = label_report.Rows();
  const LabelNamer namer = NamerOf(run->model());
  if (!json) fmt::print(task->messages, "{}", WorstLabels(top_k, rows, namer));
  WriteLabelRows(top_k, rows, namer, &*per_label);
  return per_label->Finish();
}

}  // namespace

int EvaluateCommand(int argc, char** argv) {
  CommandLine line = RankingCommandLine(
      "evaluate",
      "Measures a trained model on a file with true labels, at k = 1, 3, 5 and 10. "
      "Head, middle and\n"
      "tail are the labels, from the most frequent to the rarest, that hold a third of "
      "the training\n"
      "file's label occurrences each: P of a band is its part of P@k, recall is the "
      "share of its true\n"
      "labels among the first k. tools/dslide/MEASURES.md defines all measures.");
  line.Repeated("at", "K",
                "measure at K too, for instance 20 for recommendation; at most 4 of them");
  line.Option("output", "FILE",
              "also write the predictions; -: standard output, and measures to standard error");
  line.Option("per-sample", "FILE",
              "also write a JSON line a sample: labels, predictions, P@1, P@5, recall");
  line.Option("per-label", "FILE",
              "also write a line a label, tab-separated: support, precision, recall, F1 and "
              "confusions, where the first K (--top-k) count as predicted; print the worst");
  line.Option("train", "FILE", "training file for PSP and bands, if it moved since training");
  line.Option("show", "N", "print the first N samples with predicted and true label names", "0");
  line.Flag("rare-table", "print P, recall and PSP for --rare 0, 0.25, 0.5, 0.75 and 1");
  line.Option("label-names", "FILE",
              "of a model of numbers: names of its labels, in place of its own");
  return RunExecutable("dslide evaluate", line, argc, argv, Evaluate);
}

}  // namespace dslide
