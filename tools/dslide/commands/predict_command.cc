// dslide predict: the best labels of each sample of a file.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/commands/ranking_run.h"
#include "tools/dslide/model/prediction_file.h"

namespace dslide {
namespace {

struct PredictTask {
  RankingTask ranking;
  float threshold = 0;
};

Result<PredictTask> TaskFrom(const ParsedArguments& arguments) {
  Result<RankingTask> ranking = RankingTaskFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(ranking);
  PredictTask task{*std::move(ranking)};
  task.ranking.probabilities = arguments.Has("probabilities") || arguments.Has("threshold");
  if (arguments.Has("threshold")) {
    const Result<float> threshold = arguments.Fraction("threshold");
    DSLIDE_RETURN_IF_ERROR(threshold);
    task.threshold = *threshold;
  }
  if (task.ranking.probabilities && task.ranking.search &&
      !ScoresAllNeurons(*task.ranking.search)) {
    return BadInput(
        "--search lsh: scores the labels of some buckets, which gives no probabilities; leave it "
        "out, or name exact or scan");
  }
  return task;
}

// The kind of a run's probabilities; with softmax, the labels that the sum covers.
std::string DescribeProbabilities(const RankingRun& run) {
  const ModelConfig& model = run.config().model;
  if (model.loss != Loss::kSoftmax) return "probabilities: each label's own, by sigmoid";
  const std::string labels = Plural(model.labels, "label");
  return run.task().search == Search::kScan && !IsLinear(model)
             ? fmt::format(
                   "probabilities: softmax over all {}, scored in 8 bits except the best; "
                   "--search exact scores all exactly",
                   labels)
             : fmt::format("probabilities: softmax over all {}, scored exactly", labels);
}

Status Predict(const ParsedArguments& arguments) {
  Result<PredictTask> task = TaskFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(task);
  Result<RankingRun> run = RankingRun::Open(std::move(task->ranking));
  DSLIDE_RETURN_IF_ERROR(run);
  const std::string& path = run->task().output;
  const PredictionFormat format = {run->task().json, run->model().label_names(),
                                   run->model().label_uris(), run->task().probabilities,
                                   task->threshold};
  Result<PredictionFile> output =
      path.empty() ? PredictionFile::StandardOutput(format) : PredictionFile::Create(path, format);
  DSLIDE_RETURN_IF_ERROR(output);
  uint64_t samples = 0;
  DSLIDE_RETURN_IF_ERROR(run->RankAll([&](const SampleBatch& batch, const RankedLabels& ranked) {
    output->Write(ranked, run->task().top_k, batch.ids, batch.errors);
    samples += batch.features.rows();
  }));
  DSLIDE_RETURN_IF_ERROR(output->Finish());
  if (run->task().probabilities) fmt::print(stderr, "{}\n", DescribeProbabilities(*run));
  fmt::print(stderr, "{} in {:.1f} s ({:.0f} a second)\n", Plural(samples, "prediction"),
             run->seconds(), static_cast<double>(samples) / std::max(run->seconds(), 1e-9));
  return {};
}

}  // namespace

int PredictCommand(int argc, char** argv) {
  CommandLine line = RankingCommandLine(
      "predict",
      "Writes the best labels of each sample, one line a sample, best first, each with its score.\n"
      "A score is a logit: it ranks the labels of one sample, and is not a probability. With\n"
      "--probabilities text has the probability in place of the score, and JSON has both.");
  line.Option("output", "FILE", "where to write; standard output if not given, or -");
  line.Flag("probabilities",
            "as `dslide serve` gives them; --search auto scores all labels exactly then");
  line.Option("threshold", "P", "leave labels of a lower probability out; implies --probabilities");
  return RunExecutable("dslide predict", line, argc, argv, Predict);
}

}  // namespace dslide
