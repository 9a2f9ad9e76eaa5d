// dslide bench: how fast the engine is on this machine, beside what the machine could do.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "common/base/process.h"
#include "common/config/executable.h"
#include "common/config/nearest.h"
#include "tools/dslide/commands.h"
#include "tools/dslide/engine_bench.h"

namespace dslide {
namespace {

using Json = nlohmann::ordered_json;

Result<EngineBenchOptions> OptionsFrom(const ParsedArguments& arguments) {
  EngineBenchOptions options;
  struct {
    const char* name;
    uint32_t* value;
    uint32_t min, max;
  } const numbers[] = {
      {"features", &options.features, 1, 1u << 31},
      {"labels", &options.labels, 1, 1u << 31},
      {"features-per-sample", &options.features_per_sample, 1, 10000},
      {"labels-per-sample", &options.labels_per_sample, 1, 1000},
      {"threads", &options.threads, 1, 256},
      {"repeats", &options.repeats, 1, 1000},
  };
  for (const auto& number : numbers) {
    const Result<uint32_t> value = arguments.Number(number.name, number.min, number.max);
    DSLIDE_RETURN_IF_ERROR(value);
    *number.value = *value;
  }
  const Result<uint32_t> milliseconds = arguments.Number("milliseconds", 10, 3600000);
  DSLIDE_RETURN_IF_ERROR(milliseconds);
  options.seconds = *milliseconds / 1000.0;

  Overrides overrides = {"model.active=lsh", "model.popular=0", "train.probe_samples=0"};
  for (const auto& [option, key] : {std::pair{"hidden", "model.hidden"},
                                    {"batch", "train.batch"},
                                    {"candidates", "model.candidates"},
                                    {"uniform", "model.uniform"},
                                    {"precision", "model.precision"},
                                    {"optimizer", "train.optimizer"}}) {
    overrides.push_back(fmt::format("{}={}", key, arguments.Get(option)));
  }
  for (const std::string& set : arguments.All("set")) overrides.push_back(set);
  Result<Config> config = LoadConfig("", overrides);
  DSLIDE_RETURN_IF_ERROR(config);
  options.config = std::move(*config);
  return options;
}

void PrintJson(const EngineBenchResult& r) {
  Json json;
  json["samples_per_second"] = r.samples_per_second;
  json["bytes_per_sample"] = r.bytes_per_sample;
  json["random_row_bandwidth"] = r.roofline.random_row_bandwidth;
  json["matrix_rate"] = r.roofline.matrix_rate;
  json["roofline_share"] = r.roofline_share;
  for (size_t p = 0; p < kPhases; ++p) {
    json["phase_seconds"][std::string(kPhaseNames[p])] = r.phase_seconds[p];
  }
  json["rows_per_batch"] = r.rows_per_batch;
  json["input_rows_per_batch"] = r.input_rows_per_batch;
  json["operations_per_sample"] = r.operations_per_sample;
  json["parameter_bytes"] = r.parameter_bytes;
  fmt::print("{}\n", json.dump());
}

void PrintTable(const EngineBenchResult& r) {
  fmt::print("{:<24}{:>12.0f}\n", "samples/s", r.samples_per_second);
  fmt::print("{:<24}{:>12.2f}\n", "roofline share", r.roofline_share);
  fmt::print("{:<24}{:>12.1f}\n", "random rows, GB/s", r.roofline.random_row_bandwidth / 1e9);
  fmt::print("{:<24}{:>12.0f}\n", "matrix rate, GFLOP/s", r.roofline.matrix_rate / 1e9);
  fmt::print("{:<24}{:>12.0f}\n", "bytes a sample", r.bytes_per_sample);
  fmt::print("{:<24}{:>12.0f}\n", "output rows a batch", r.rows_per_batch);
  fmt::print("{:<24}{:>12.0f}\n", "input rows a batch", r.input_rows_per_batch);
  fmt::print("{:<24}{:>12.0f}\n", "parameters, MB", r.parameter_bytes / 1e6);
  double total = 0;
  for (const double seconds : r.phase_seconds) total += seconds;
  fmt::print("executor time a batch, ms\n");
  for (size_t p = 0; p < kPhases; ++p) {
    fmt::print("  {:<22}{:>12.2f}{:>6.0f} %\n", kPhaseNames[p], r.phase_seconds[p],
               100 * r.phase_seconds[p] / total);
  }
}

Status Bench(const ParsedArguments& arguments) {
  if (arguments.Positional()[0] != "engine") {
    return BadInput(fmt::format("dslide bench {}: the only benchmark here is engine",
                                Printable(arguments.Positional()[0])));
  }
  const Result<EngineBenchOptions> options = OptionsFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(options);
  const EngineBenchResult result = RunEngineBench(*options);
  if (arguments.Has("json")) {
    PrintJson(result);
  } else {
    PrintTable(result);
  }
  return {};
}

}  // namespace

int BenchCommand(int argc, char** argv) {
  CommandLine line("dslide bench engine [options]",
                   "Trains on generated data in this process, without network or files, and holds "
                   "the speed against the machine's memory bandwidth and matrix rate.");
  line.Positional("BENCHMARK", "engine", 1, 1);
  line.Option("features", "D", "input features", "136000");
  line.Option("labels", "N", "output neurons", "670000");
  line.Option("hidden", "H", "hidden units", "128");
  line.Option("batch", "B", "samples a batch", "256");
  line.Option("candidates", "C", "hash candidates a sample", "20");
  line.Option("uniform", "R", "uniform negatives a batch", "2000");
  line.Option("features-per-sample", "F", "features a sample", "75");
  line.Option("labels-per-sample", "L", "labels a sample", "5");
  line.Option("threads", "T", "executors", std::to_string(CoresOfThisMachine()));
  line.Option("precision", "fp32|bf16", "of weights, moments and products", "fp32");
  line.Option("optimizer", "O", "adam, adagrad or sgd", "adam");
  line.Option("repeats", "R", "measurements; medians are printed", "5");
  line.Option("milliseconds", "MS", "length of a measurement", "2000");
  line.Repeated("set", "SECTION.KEY=VALUE", "any other value of the configuration");
  line.Flag("json", "machine-readable");
  return RunExecutable("dslide bench", line, argc, argv, Bench);
}

}  // namespace dslide
