// dslide-cells: what a model loses when groups train apart and exchange rows, or when samples visit
// some servers only. Prints the run as a line of JSON.
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/app/executable.h"
#include "common/data/measures/data_facts.h"
#include "common/text/samples.h"
#include "tools/bench/cells/study.h"

namespace dslide::cells {
namespace {

using Json = nlohmann::ordered_json;

Status Read(const ParsedArguments& arguments, const char* name, double most, float* to) {
  const std::string text = arguments.Get(name);
  size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  if (used != text.size() || !(value >= 0 && value <= most)) {
    return BadInput(fmt::format("--{}: {} is no number from 0 to {}", name, text, most));
  }
  *to = static_cast<float>(value);
  return {};
}

Result<CellsOptions> OptionsFrom(const ParsedArguments& arguments) {
  CellsOptions options;
  const Result<uint32_t> groups = arguments.Number("groups", 1, 64);
  DSLIDE_RETURN_IF_ERROR(groups);
  const Result<uint32_t> exchange = arguments.Number("exchange", 1, 1'000'000'000);
  DSLIDE_RETURN_IF_ERROR(exchange);
  const Result<MergeRule> rule = ParseMergeRule(arguments.Get("rule"));
  DSLIDE_RETURN_IF_ERROR(rule);
  const Result<SumsRule> sums = ParseSumsRule(arguments.Get("sums"));
  DSLIDE_RETURN_IF_ERROR(sums);
  options.rules.sums = *sums;
  options.groups = *groups;
  options.exchange_first = options.exchange_last = *exchange;
  if (arguments.Has("exchange-last")) {
    const Result<uint32_t> last = arguments.Number("exchange-last", 1, 1'000'000'000);
    DSLIDE_RETURN_IF_ERROR(last);
    options.exchange_last = *last;
  }
  options.blocks = arguments.Has("blocks");
  const Result<uint32_t> lag = arguments.Number("lag", 0, 1000);
  DSLIDE_RETURN_IF_ERROR(lag);
  options.lag = *lag;
  const Result<uint32_t> all = arguments.Number("all", 0, 1'000'000'000);
  DSLIDE_RETURN_IF_ERROR(all);
  options.all_samples = *all;
  const Result<uint32_t> touches = arguments.Number("touches", 1, 1'000'000);
  DSLIDE_RETURN_IF_ERROR(touches);
  ExchangeRules& rules = options.rules;
  rules.least_touches = *touches;
  rules.rule = *rule;
  rules.round = !arguments.Has("exact");
  DSLIDE_RETURN_IF_ERROR(Read(arguments, "few", 1e9, &rules.few));
  DSLIDE_RETURN_IF_ERROR(Read(arguments, "hold-back", 100, &rules.hold_back));
  DSLIDE_RETURN_IF_ERROR(Read(arguments, "outer", 100, &rules.outer));
  DSLIDE_RETURN_IF_ERROR(Read(arguments, "momentum", 0.999, &rules.momentum));
  return options;
}

Result<StudyData> DataFrom(const ParsedArguments& arguments) {
  Result<TrainingSamples> train = LoadTrainingSamples(arguments.Get("train"), {});
  DSLIDE_RETURN_IF_ERROR(train);
  if (train->preprocessor != nullptr) return BadInput("--train: a file of numbers is needed");
  StudyData data{std::move(train->data), {}};
  Result<Dataset> test = ReadSamples(
      arguments.Get("test"), {nullptr, {data.train.num_features(), data.train.num_labels()}});
  DSLIDE_RETURN_IF_ERROR(test);
  data.test = std::move(*test);
  return data;
}

// Rows are fp32, so that they can be changed from outside; the products are the product's.
Result<Config> ConfigFor(const ParsedArguments& arguments, const Dataset& train, bool visits) {
  Overrides overrides = {"model.precision=fp32", "model.products=bf16", "train.probe_samples=0"};
  if (visits) overrides.push_back("cluster.input_slots=0");  // every server has input rows
  for (const std::string& set : arguments.All("set")) overrides.push_back(set);
  Result<Config> config = LoadConfig("", overrides);
  DSLIDE_RETURN_IF_ERROR(config);
  ResolveConfig(train.num_features(), train.num_labels(), &*config,
                DataFactsOf(train, train.size()));
  const ModelConfig& model = config->model;
  const bool fits = model.precision == Precision::kFp32 && model.active != ActiveSet::kLsh &&
                    model.neurons == Neurons::kLearned && model.dense.empty() &&
                    config->train.optimizer == OptimizerKind::kAdaGrad &&
                    !IsSynchronous(config->train);
  if (!fits) {
    return BadInput(
        "dslide-cells: fp32 rows, learned neurons, AdaGrad, no hash tables, no dense layers, "
        "asynchronous");
  }
  return config;
}

Json TrafficJson(const Traffic& traffic) {
  return {{"touched", traffic.touched},
          {"sent", traffic.sent},
          {"merged", traffic.merged},
          {"direct_bytes", traffic.direct_bytes},
          {"owner_bytes", traffic.owner_bytes}};
}

Json ResultJson(const Config& config, const StudyResult& result) {
  const auto percent = [](double share) { return 100 * share; };
  return {{"hidden", config.model.hidden},
          {"epochs", config.train.epochs},
          {"batch", config.train.batch},
          {"learning_rate", config.train.learning_rate},
          {"seed", config.common.seed},
          {"p_at_1", percent(result.metrics.precision[0])},
          {"p_at_3", percent(result.metrics.precision[2])},
          {"p_at_5", percent(result.metrics.precision[4])},
          {"psp_at_1", percent(result.metrics.propensity_precision[0])},
          {"loss", result.loss},
          {"samples", result.samples},
          {"train_cpu_seconds", result.train_cpu_seconds}};
}

Json CellsJson(const StudyResult& result) {
  const auto samples = static_cast<double>(result.samples);
  const auto sent = static_cast<double>(result.input.sent + result.output.sent);
  const auto touched = static_cast<double>(result.input.touched + result.output.touched);
  return {
      {"exchanges", result.input.exchanges},
      {"exchange_cpu_seconds", result.exchange_cpu_seconds},
      {"sent_share", touched == 0 ? 0 : sent / touched},
      {"direct_bytes_per_sample",
       (result.input.direct_bytes + result.output.direct_bytes) / samples},
      {"owner_bytes_per_sample", (result.input.owner_bytes + result.output.owner_bytes) / samples},
      {"input", TrafficJson(result.input)},
      {"output", TrafficJson(result.output)}};
}

Status Run(const ParsedArguments& arguments) {
  const Result<CellsOptions> options = OptionsFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(options);
  const Result<uint32_t> servers = arguments.Number("servers", 2, 64);
  DSLIDE_RETURN_IF_ERROR(servers);
  const bool visits = arguments.Has("visits");
  VisitRules rules;
  if (visits) {
    const Result<uint32_t> random = arguments.Number("visits", 1, 64);
    DSLIDE_RETURN_IF_ERROR(random);
    rules.random = *random;
    rules.embed_visited = arguments.Has("embed-visited");
  }
  const Result<StudyData> data = DataFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(data);
  const Result<Config> config = ConfigFor(arguments, data->train, visits);
  DSLIDE_RETURN_IF_ERROR(config);
  const StudyResult result =
      visits ? RunVisits(*config, *data, *servers, rules) : RunCells(*config, *data, *options);
  Json json = ResultJson(*config, result);
  if (visits) {
    json.update({{"visits", result.visits}, {"bytes_per_sample", result.bytes_per_sample}});
  } else {
    json.update(CellsJson(result));
  }
  fmt::print("{}\n", json.dump());
  return {};
}

}  // namespace
}  // namespace dslide::cells

int main(int argc, char** argv) {
  dslide::CommandLine line(
      "dslide-cells --train FILE --test FILE [options]",
      "Trains in one process: groups that have a model each and exchange changed rows, or with "
      "--visits one cluster whose samples visit some of the servers.");
  line.Required("train", "FILE", "samples to train on, numbers");
  line.Required("test", "FILE", "samples to evaluate");
  line.Option("groups", "G", "groups", "1");
  line.Option("exchange", "K", "samples of all groups between exchanges", "8192");
  line.Option("exchange-last", "K", "the same at the end of the run; it changes geometrically");
  line.Option("rule", "NAME", "of merging: average, sum, root, adasum, capped", "sum");
  line.Option("few", "T", "capped: touches that are added up", "8");
  line.Option("sums", "NAME", "of accumulators, the base takes: all, mean, follow", "all");
  line.Option("hold-back", "X", "changes below X times the root mean square norm wait", "0");
  line.Option("touches", "T", "rows with fewer updates wait", "1");
  line.Option("all", "K", "samples between exchanges in which no row waits; 0: the last one", "0");
  line.Option("lag", "N", "batches of a group that begin before one ends", "0");
  line.Option("outer", "X", "factor of merged changes", "1");
  line.Option("momentum", "X", "Nesterov's, of merged changes", "0");
  line.Flag("exact", "exchange floats, not 8 bits (bytes are counted as 8 bits)");
  line.Flag("blocks", "each group has a block of the file, not every G-th sample");
  line.Option("servers", "S", "of a cluster whose samples visit some", "8");
  line.Option("visits", "M", "servers that a sample visits besides the owners of its labels");
  line.Flag("embed-visited", "only servers that are visited give a sample's input rows");
  line.Repeated("set", "SECTION.KEY=VALUE", "another value of the configuration");
  return dslide::RunExecutable("dslide-cells", line, argc, argv, dslide::cells::Run);
}
