// dslide bench: how fast the engine is on this machine, compared with the machine's best rates.
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/app/executable.h"
#include "common/base/nearest.h"
#include "common/base/process.h"
#include "common/config/config_keys.h"
#include "common/config/limits.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "tools/dslide/bench/cluster_bench.h"
#include "tools/dslide/bench/engine_bench.h"
#include "tools/dslide/commands/commands.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

Overrides OverridesFrom(const ParsedArguments& arguments) {
  Overrides overrides;
  for (const auto& [option, key] : {std::pair{"hidden", "model.hidden"},
                                    {"batch", "train.batch"},
                                    {"active", "model.active"},
                                    {"negatives", "model.negatives"},
                                    {"precision", "model.precision"},
                                    {"optimizer", "train.optimizer"}}) {
    overrides.push_back(fmt::format("{}={}", key, arguments.Get(option)));
  }
  for (const std::string& set : arguments.All("set")) overrides.push_back(set);
  return overrides;
}

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
  if (options.features_per_sample > options.features / 2 ||
      options.labels_per_sample > options.labels / 2) {
    return BadInput(
        "--features-per-sample and --labels-per-sample: at most half of --features and --labels");
  }
  const Result<uint32_t> milliseconds = arguments.Number("milliseconds", 10, 3600000);
  DSLIDE_RETURN_IF_ERROR(milliseconds);
  options.seconds = *milliseconds / 1000.0;

  Result<Config> config = LoadConfig("", OverridesFrom(arguments));
  DSLIDE_RETURN_IF_ERROR(config);
  options.config = std::move(*config);
  if (options.config.train.batch == 0) options.config.train.batch = kMostDerivedBatch;
  const double vectors = options.config.train.optimizer == OptimizerKind::kAdam ? 3 : 1;
  const double width = options.config.model.precision == Precision::kBf16 ? 2 : 4;
  const double bytes = (static_cast<double>(options.features) + options.labels) *
                       options.config.model.hidden * vectors * width;
  if (bytes > static_cast<double>(MemoryOfThisMachine())) {
    return BadInput(fmt::format("the parameters take {:.0f} GB, this machine has {:.0f}",
                                bytes / 1e9, static_cast<double>(MemoryOfThisMachine()) / 1e9));
  }
  return options;
}

// The measured settings, by their configuration keys.
OrderedJson Settings(const EngineBenchOptions& options) {
  OrderedJson json;
  json["features"] = options.features;
  json["labels"] = options.labels;
  json["threads"] = options.threads;
  std::vector<const char*> names = {"model.hidden", "model.precision", "train.batch",
                                    "train.optimizer", "model.active"};
  if (DrawsByMass(options.config.model)) names.push_back("model.negatives");
  if (HasNeuronIndex(options.config.model)) names.push_back("model.sharing");
  for (const char* name : names) {
    json[name] = FindConfigKey(name)->field.format(options.config);
  }
  return json;
}

void PrintJson(const EngineBenchOptions& options, const EngineBenchResult& r) {
  OrderedJson json;
  json["settings"] = Settings(options);
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
  json["table_bytes_per_neuron"] = r.table_bytes_per_neuron;
  json["rehash_seconds"] = r.rehash_seconds;
  json["background_rehash_seconds"] = r.background_rehash_seconds;
  json["longest_rehash_step_ms"] = 1000 * r.longest_rehash_step;
  fmt::print("{}\n", json.dump());
}

void PrintTable(const EngineBenchOptions& options, const EngineBenchResult& r) {
  const OrderedJson json = Settings(options);
  std::string settings;
  for (const auto& [name, value] : json.items()) {
    settings += fmt::format("{}{} {}", settings.empty() ? "" : ", ", name,
                            value.is_string() ? value.get<std::string>() : value.dump());
  }
  fmt::print("{}\n", settings);
  fmt::print("{:<24}{:>12.0f}\n", "samples/s", r.samples_per_second);
  fmt::print("{:<24}{:>12.2f}\n", "roofline share", r.roofline_share);
  fmt::print("{:<24}{:>12.1f}\n", "random rows, GB/s", r.roofline.random_row_bandwidth / 1e9);
  fmt::print("{:<24}{:>12.0f}\n", "matrix rate, GFLOP/s", r.roofline.matrix_rate / 1e9);
  fmt::print("{:<24}{:>12.0f}\n", "bytes per sample", r.bytes_per_sample);
  fmt::print("{:<24}{:>12.0f}\n", "output rows per batch", r.rows_per_batch);
  fmt::print("{:<24}{:>12.0f}\n", "input rows per batch", r.input_rows_per_batch);
  fmt::print("{:<24}{:>12.0f}\n", "parameters, MB", r.parameter_bytes / 1e6);
  fmt::print("{:<24}{:>12.0f}\n", "tables, bytes per neuron", r.table_bytes_per_neuron);
  fmt::print("{:<24}{:>12.2f}\n", "full rehash, s", r.rehash_seconds);
  fmt::print("{:<24}{:>12.2f}\n", "in the background, s", r.background_rehash_seconds);
  fmt::print("{:<24}{:>12.2f}\n", "its longest step, ms", 1000 * r.longest_rehash_step);
  double total = 0;
  for (const double seconds : r.phase_seconds) total += seconds;
  fmt::print("executor time per batch, ms\n");
  for (size_t p = 0; p < kPhases; ++p) {
    fmt::print("  {:<22}{:>12.2f}{:>6.0f} %\n", kPhaseNames[p], r.phase_seconds[p],
               100 * r.phase_seconds[p] / total);
  }
}

Status Engine(const ParsedArguments& arguments, const EngineBenchOptions& options) {
  const EngineBenchResult result = RunEngineBench(options);
  if (arguments.Has("json")) {
    PrintJson(options, result);
  } else {
    PrintTable(options, result);
  }
  return {};
}

Status Cluster(const ParsedArguments& arguments, const EngineBenchOptions& options) {
  const Result<ClusterBenchResult> result = RunClusterBench(options, OverridesFrom(arguments));
  DSLIDE_RETURN_IF_ERROR(result);
  const ClusterBenchResult& r = *result;
  if (arguments.Has("json")) {
    fmt::print("{}\n", OrderedJson{{"samples_per_second", r.samples_per_second},
                                   {"engine_samples_per_second", r.engine_samples_per_second},
                                   {"share_of_engine", r.share},
                                   {"rows_per_batch", r.rows_per_batch},
                                   {"engine_rows_per_batch", r.engine_rows_per_batch},
                                   {"bytes_sent_per_sample", r.bytes_sent_per_sample},
                                   {"bytes_received_per_sample", r.bytes_received_per_sample}}
                           .dump());
    return {};
  }
  fmt::print("{:<26}{:>12.0f}\n", "cluster, samples/s", r.samples_per_second);
  fmt::print("{:<26}{:>12.0f}\n", "engine, samples/s", r.engine_samples_per_second);
  fmt::print("{:<26}{:>12.2f}\n", "share of the engine", r.share);
  fmt::print("{:<26}{:>12.0f}\n", "rows per batch", r.rows_per_batch);
  fmt::print("{:<26}{:>12.0f}\n", "rows, engine", r.engine_rows_per_batch);
  if (std::abs(r.rows_per_batch / r.engine_rows_per_batch - 1) > 0.05) {
    fmt::print(
        "cluster and engine had different work; with --active mass their rows are the same\n");
  }
  fmt::print("{:<26}{:>12.0f}\n", "bytes sent per sample", r.bytes_sent_per_sample);
  fmt::print("{:<26}{:>12.0f}\n", "bytes received per sample", r.bytes_received_per_sample);
  return {};
}

Status Ranking(const ParsedArguments& arguments, const EngineBenchOptions& options) {
  constexpr uint32_t kSamples = 10000;
  if (!HasNeuronIndex(options.config.model)) {
    return BadInput("dslide bench ranking: needs model.active = lsh");
  }
  const RankingBenchResult r = RunRankingBench(options, kSamples);
  if (arguments.Has("json")) {
    fmt::print("{}\n", OrderedJson{{"samples", r.samples},
                                   {"exact_seconds", r.exact_seconds},
                                   {"lsh_seconds", r.lsh_seconds}}
                           .dump());
    return {};
  }
  fmt::print("{:<24}{:>12}\n", "samples", r.samples);
  fmt::print("{:<24}{:>12.2f}\n", "exact, s", r.exact_seconds);
  fmt::print("{:<24}{:>12.2f}\n", "by hash tables, s", r.lsh_seconds);
  return {};
}

Status Bench(const ParsedArguments& arguments) {
  const Result<EngineBenchOptions> options = OptionsFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(options);
#ifdef DSLIDE_QUICK_BUILD
  LogWarning({event::kQuickBuild, "this is a quick build for tests, which is slower"});
#endif
  const std::string& benchmark = arguments.Positional()[0];
  if (benchmark == "engine") return Engine(arguments, *options);
  if (benchmark == "cluster") return Cluster(arguments, *options);
  if (benchmark == "ranking") return Ranking(arguments, *options);
  return BadInput(
      fmt::format("{}: unknown benchmark; use engine, ranking or cluster", Printable(benchmark)));
}

}  // namespace

int BenchCommand(int argc, char** argv) {
  CommandLine line(
      "dslide bench engine|ranking|cluster [options]",
      "Trains on generated data. engine: in this process, without network or files, "
      "beside the machine's memory bandwidth and matrix rate. ranking: the best labels of "
      "10,000 samples. cluster: one server and one worker on loopback, beside the "
      "engine.");
  line.Positional("BENCHMARK", "engine, ranking or cluster", 1, 1);
  line.Option("features", "D", "input features", "136000");
  line.Option("labels", "N", "output neurons", "670000");
  line.Option("hidden", "H", "hidden units", "128");
  line.Option("batch", "B", "samples per batch", "256");
  line.Option("active", "mass|lsh|all", "neurons computed", "mass");
  line.Option("negatives", "R", "mass, lsh: neurons drawn by mass per batch", "2500");
  line.Option("features-per-sample", "F", "features per sample", "75");
  line.Option("labels-per-sample", "L", "labels per sample", "5");
  line.Option("threads", "T", "executors", std::to_string(CoresOfThisMachine()));
  line.Option("precision", "fp32|bf16", "of weights, moments and products", "bf16");
  line.Option("optimizer", "O", "adam, adagrad or sgd", "adagrad");
  line.Option("repeats", "R", "measurements; medians are printed", "5");
  line.Option("milliseconds", "MS", "length of a measurement", "2000");
  line.Repeated("set", "SECTION.KEY=VALUE", "another value of the configuration");
  line.Flag("json", "print JSON");
  return RunExecutable("dslide bench", line, argc, argv, Bench);
}

}  // namespace dslide
