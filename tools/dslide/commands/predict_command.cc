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

Status Predict(const ParsedArguments& arguments) {
  Result<RankingTask> task = RankingTaskFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(task);
  Result<RankingRun> run = RankingRun::Open(std::move(*task));
  DSLIDE_RETURN_IF_ERROR(run);
  const std::string& path = run->task().output;
  const bool json = run->task().json;
  const std::vector<std::string>* names = run->model().label_names();
  Result<PredictionFile> output = path.empty() ? PredictionFile::StandardOutput(json, names)
                                               : PredictionFile::Create(path, json, names);
  DSLIDE_RETURN_IF_ERROR(output);
  uint64_t samples = 0;
  DSLIDE_RETURN_IF_ERROR(run->RankAll([&](const SampleBatch& batch, const TopKReply& ranked) {
    output->Write(ranked, run->task().top_k, batch.ids);
    samples += batch.features.rows();
  }));
  DSLIDE_RETURN_IF_ERROR(output->Finish());
  fmt::print(stderr, "{} in {:.1f} s ({:.0f} a second)\n", Plural(samples, "prediction"),
             run->seconds(), static_cast<double>(samples) / std::max(run->seconds(), 1e-9));
  return {};
}

}  // namespace

int PredictCommand(int argc, char** argv) {
  CommandLine line = RankingCommandLine("predict",
                                        "Writes the best labels of each sample, one line a sample, "
                                        "best first, each with its score.\nA score is a logit: it "
                                        "ranks the labels of one sample, and is no probability, "
                                        "which `dslide serve`\ngives.");
  line.Option("output", "FILE", "where to write; standard output if not given, or -");
  return RunExecutable("dslide predict", line, argc, argv, Predict);
}

}  // namespace dslide
