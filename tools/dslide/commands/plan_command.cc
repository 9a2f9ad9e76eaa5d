// dslide plan: what a run needs and how fast it is, before machines are rented for it.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/app/executable.h"
#include "common/app/limits.h"
#include "common/base/nearest.h"
#include "common/base/process.h"
#include "common/config/config_fields.h"
#include "common/config/schedule.h"
#include "common/config/value_scale.h"
#include "common/data/data_order.h"
#include "common/data/measures/data_facts.h"
#include "common/data/measures/sample_lengths.h"
#include "common/log/log.h"
#include "common/run/hold_out.h"
#include "common/security/small_file.h"
#include "common/text/samples.h"
#include "scheduler/balance/model_size.h"
#include "tools/dslide/bench/engine_bench.h"
#include "tools/dslide/cluster/given_once.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/plan/calibration.h"
#include "tools/dslide/plan/cost_model.h"
#include "tools/dslide/plan/fitting_nodes.h"
#include "tools/dslide/plan/nodes.h"
#include "tools/dslide/plan/plan_report.h"

namespace dslide {
namespace {

constexpr uint32_t kBatches = kGeneratedBatches;  // that stand for all of the data
constexpr double kLeastGain = 0.05;               // of a further node
constexpr uint32_t kMostNodesShown = 64;
constexpr const char* kSizes[] = {"features", "labels", "samples", "features-per-sample",
                                  "labels-per-sample"};

// What is trained: the resolved configuration, the shape, and some batches.
struct Task {
  Config config;
  DataShape shape;
  std::vector<LeaseBatch> batches;
  std::string description;
};

bool GivesSizes(const ParsedArguments& arguments) {
  return std::ranges::any_of(kSizes, [&](const char* name) { return arguments.Has(name); });
}

// Batches of whole size, the samples in a random order, over again where there are few.
std::vector<LeaseBatch> BatchesOf(const Dataset& data, const Config& config) {
  const DataOrder order = DataOrder::Epoch(data, config.common.seed, 0, config.train.batch);
  const uint64_t count = std::min<uint64_t>(kBatches, order.batches());
  std::vector<LeaseBatch> batches;
  for (uint64_t b = 0; b < count; ++b) {
    LeaseBatch& batch = batches.emplace_back();
    for (uint64_t i = 0; i < config.train.batch; ++i) {
      const SampleView sample = order.Sample((b * config.train.batch + i) % order.samples());
      batch.labels.ids.insert(batch.labels.ids.end(), sample.labels.begin(), sample.labels.end());
      batch.features.ids.insert(batch.features.ids.end(), sample.features.begin(),
                                sample.features.end());
      batch.features.values.insert(batch.features.values.end(), sample.values.begin(),
                                   sample.values.end());
      batch.labels.EndRow();
      batch.features.EndRow();
      if (order.weighted()) batch.weights.push_back(sample.weight);
    }
  }
  return batches;
}

Result<Task> ReadTask(Config config) {
  const std::string path = config.train.data;
  if (path == "-") return BadInput("--data -: a plan reads a file; name one");
  Result<TrainingSamples> train =
      LoadTrainingSamples(path, {config.text, config.train.min_label_samples, nullptr});
  DSLIDE_RETURN_IF_ERROR(train);
  const Dataset& data = train->data;
  if (data.size() == 0) return BadInput(fmt::format("{}: no samples to train on", path));
  ResolveNormalize(MedianLength(data), &config.train);
  std::string note;
  const Result<std::vector<uint32_t>> held_out = HoldOut(data, &config, &note);
  DSLIDE_RETURN_IF_ERROR(held_out);
  const uint64_t trained = data.size() - held_out->size();
  ResolveConfig(data.num_features(), data.num_labels(), &config, DataFactsOf(data, trained));
  Task task;
  task.batches = BatchesOf(data, config);
  task.shape = MeasureShape(task.batches, config);
  task.shape.samples = trained;
  task.shape.held_out_samples = held_out->size();
  for (const auto& [measured, samples] : {std::pair(&config.train.test, &task.shape.test_samples),
                                          {&config.train.dev, &task.shape.held_out_samples}}) {
    if (measured->empty()) continue;
    Result<LoadedSamples> loaded = LoadTestSamples(*measured, *train, config.text);
    DSLIDE_RETURN_IF_ERROR(loaded);
    *samples = loaded->data.size();
  }
  task.config = std::move(config);
  task.description = path;
  return task;
}

// Distributed as `dslide bench` has it.
Result<Task> GenerateTask(const ParsedArguments& arguments, Config config) {
  EngineBenchOptions sizes;
  uint32_t samples = 0;
  struct {
    const char* name;
    uint32_t* value;
    uint32_t max;
  } const numbers[] = {{"features", &sizes.features, kMostFeatures},
                       {"labels", &sizes.labels, kMostLabels},
                       {"samples", &samples, UINT32_MAX},
                       {"features-per-sample", &sizes.features_per_sample, 10000},
                       {"labels-per-sample", &sizes.labels_per_sample, 1000}};
  for (const auto& number : numbers) {
    const Result<uint32_t> value = arguments.Number(number.name, 1, number.max);
    DSLIDE_RETURN_IF_ERROR(value);
    *number.value = *value;
  }
  if (sizes.features_per_sample > sizes.features / 2 ||
      sizes.labels_per_sample > sizes.labels / 2) {
    return BadInput(
        "--features-per-sample and --labels-per-sample: at most half of --features and --labels");
  }
  const double repeats = static_cast<double>(samples) * sizes.labels_per_sample / sizes.labels;
  ResolveConfig(sizes.features, sizes.labels, &config, {samples, repeats});
  Task task;
  sizes.config = config;
  for (uint32_t b = 0; b < kBatches; ++b) task.batches.push_back(GenerateBatch(sizes, b));
  task.shape = MeasureShape(task.batches, config);
  task.shape.samples = samples;
  task.config = std::move(config);
  task.description = "generated";
  return task;
}

Result<Task> TaskFrom(const ParsedArguments& arguments) {
  const Result<Overrides> overrides = OverridesOf(arguments);
  DSLIDE_RETURN_IF_ERROR(overrides);
  Result<Config> config = LoadConfig(arguments.Get("config"), *overrides);
  DSLIDE_RETURN_IF_ERROR(config);
  DSLIDE_RETURN_IF_ERROR(CheckNotLent(*config));
  DSLIDE_RETURN_IF_ERROR(
      CheckGivenOnce(arguments, {{"servers", "cluster.servers"}, {"workers", "cluster.workers"}}));
  if (!GivesSizes(arguments) && !config->train.data.empty()) return ReadTask(*std::move(config));
  if (arguments.Has("data")) {
    return BadInput("--data and sizes such as --features: give one of them");
  }
  if (!GivesSizes(arguments)) {
    return BadInput(
        "no data: name the training file by --data, or give its sizes by --features, --labels and "
        "--samples");
  }
  return GenerateTask(arguments, *std::move(config));
}

// The nodes of --nodes, or this machine with its servers and workers as `dslide train` starts them.
Result<std::vector<PlannedNode>> NodesFrom(const ParsedArguments& arguments, const Config& config) {
  if (arguments.Has("nodes")) {
    for (const char* option : {"servers", "workers"}) {
      if (arguments.Has(option)) {
        return BadInput(fmt::format("--{}: --nodes says which nodes have one", option));
      }
    }
    return ParseNodes(arguments.Get("nodes"));
  }
  PlannedNode node{static_cast<double>(CoresOfThisMachine()), MemoryOfThisMachine(), 0,
                   config.cluster.servers, std::max(1u, config.cluster.workers)};
  for (const auto& [option, value] :
       {std::pair("servers", &node.servers), {"workers", &node.workers}}) {
    if (!arguments.Has(option)) continue;
    const Result<uint32_t> given = arguments.Number(option, 1, kMostPlannedProcesses);
    DSLIDE_RETURN_IF_ERROR(given);
    *value = *given;
  }
  std::vector<PlannedNode> nodes = {node};
  if (const std::string why = WhyTooMany(nodes); !why.empty()) {
    return BadInput("--servers, --workers: " + why);
  }
  return nodes;
}

constexpr double kMostOfNumber = 1e6;

Result<double> PositiveNumber(const std::string& option, const std::string& text) {
  const std::optional<double> number = ParseNumber<double>(text);
  if (number && *number > 0 && *number <= kMostOfNumber) return *number;
  return BadInput(fmt::format("--{} {}: must be a number above 0, at most {:.0f}", option,
                              Printable(text), kMostOfNumber));
}

// Of a model that may not fit anywhere: what it takes follows from sizes alone.
std::vector<EpochRates> NominalRates(const Config& config) {
  Rates rates;
  rates.neurons.shared = rates.input.shared = 1e-3;
  rates.rows_per_batch =
      config.model.active == ActiveSet::kAll ? config.model.labels : config.model.negatives;
  return {{1, rates}};
}

// "model.hidden = 64, the run has 32" for each that differs; "": none does.
std::string Differences(const PlannedTask& measured, const PlannedTask& run) {
  std::string text;
  for (const auto& [name, value] : run) {
    const auto found = std::ranges::find(measured, name, &PlannedTask::value_type::first);
    const std::string was = found == measured.end() ? "unknown" : found->second;
    if (was == value) continue;
    text += fmt::format("{}{} = {}, the run has {}", text.empty() ? "" : "; ", name, Printable(was),
                        value);
  }
  return text;
}

// A number is the speed of the nodes' cores, anything else a file with rates.
Status ReadRates(const ParsedArguments& arguments, PlanInput* input) {
  if (!arguments.Has("rates")) return {};
  const std::string text = arguments.Get("rates");
  if (ParseNumber<double>(text)) {
    const Result<double> speed = PositiveNumber("rates", text);
    DSLIDE_RETURN_IF_ERROR(speed);
    input->core_speed = *speed;
    return {};
  }
  const Result<std::string> file = ReadPlainText(text);
  DSLIDE_RETURN_IF_ERROR(file);
  Result<std::vector<EpochRates>> rates = RatesFromJson(*file);
  if (!rates.ok()) return BadInput(fmt::format("--rates {}: {}", text, rates.error().message));
  for (const EpochRates& part : *rates) {
    if (const std::string other = Differences(part.rates.task, TaskOf(input->config));
        !other.empty()) {
      return BadInput(
          fmt::format("--rates {}: measured with {}; run `dslide plan --json` there with this "
                      "configuration and data",
                      text, other));
    }
  }
  input->epochs = *std::move(rates);
  return {};
}

Status Measure(const ParsedArguments& arguments, const Task& task, PlanInput* input) {
  const Result<uint32_t> milliseconds = arguments.Number("milliseconds", 10, 600000);
  DSLIDE_RETURN_IF_ERROR(milliseconds);
  Calibration calibration{task.config, task.batches};
  calibration.samples = static_cast<double>(task.shape.samples);
  calibration.run_batches = static_cast<double>(
      task.config.train.epochs * BatchesPerEpoch(task.config.train, task.shape.samples));
  calibration.seconds = *milliseconds / 1000.0;
  calibration.most_bytes = std::min<uint64_t>(MemoryOfThisMachine() / 4, uint64_t{2} << 30);
  std::fputs("measuring this machine with this configuration ...\n", stderr);
  Result<std::vector<EpochRates>> rates = Calibrate(calibration);
  DSLIDE_RETURN_IF_ERROR(rates);
  input->epochs = *std::move(rates);
  return {};
}

Status MakePlan(const ParsedArguments& arguments) {
  PlanReport report;
  if (arguments.Has("price")) {
    const Result<double> price = PositiveNumber("price", arguments.Get("price"));
    DSLIDE_RETURN_IF_ERROR(price);
    report.price = *price;
  }
  Result<Config> config = ConfigFromArguments(arguments);
  DSLIDE_RETURN_IF_ERROR(config);
  Result<std::vector<PlannedNode>> nodes = NodesFrom(arguments, *config);
  DSLIDE_RETURN_IF_ERROR(nodes);
  StartLog("dslide", "", "warn");
  Result<Task> task = TaskFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(task);
  PlanInput input{task->config, task->shape, NominalRates(task->config), *std::move(nodes)};
  DSLIDE_RETURN_IF_ERROR(ReadRates(arguments, &input));
  if (const std::string why = WhyItDoesNotFit(input); !why.empty()) return BadInput(why);
  const bool given = arguments.Has("rates") && input.core_speed == 1 &&
                     !ParseNumber<double>(arguments.Get("rates"));
  if (!given) {
    DSLIDE_RETURN_IF_ERROR(Measure(arguments, *task, &input));
    // Batches in flight, and so the memory that they take, follow from the rates.
    if (const std::string why = WhyItDoesNotFit(input); !why.empty()) return BadInput(why);
  }
  report.input = &input;
  report.data = task->description;
  report.estimate = EstimateRun(input);
  if (arguments.Has("nodes")) report.rows = EstimateNodes(input, kLeastGain, kMostNodesShown);
  std::fputs((arguments.Has("json") ? PlanJson(report) : PlanText(report)).c_str(), stdout);
  std::fflush(stdout);
  return {};
}

}  // namespace

int PlanCommand(int argc, char** argv) {
  CommandLine line(
      "dslide plan [--data FILE] [--nodes COUNTxCORESxGBxMBIT] [options]",
      "Says what a run needs (memory, disk, bytes, hours) and how fast it would be, before any "
      "machine is rented for it. Speed is reckoned from a few seconds of training on this machine. "
      "Exit code 2 names what does not fit, and how many nodes or how much memory would do.");
  DeclareDataOptions(&line);
  line.Option("features", "D", "without data: input features", "136000");
  line.Option("labels", "N", "without data: labels", "670000");
  line.Option("samples", "M", "without data: training samples", "500000");
  line.Option("features-per-sample", "F", "without data: features of a sample", "75");
  line.Option("labels-per-sample", "L", "without data: labels of a sample", "5");
  line.Option("nodes", "NODES",
              "machines: COUNTxCORESxGIGABYTESxMBIT, such as 4x2x8x100, each with a server and a "
              "worker, or as many as :SERVERS+WORKERS behind it says; commas separate "
              "groups; without it: this machine");
  line.Option("servers", "N", "without --nodes: servers on this machine (cluster.servers)");
  line.Option("workers", "M", "without --nodes: workers on this machine (cluster.workers)");
  line.Option("price", "P", "of a node for an hour: print what the run costs");
  line.Option("rates", "FACTOR|FILE",
              "speed of the nodes' cores beside this machine's, or what `dslide plan --json` has "
              "printed on one of them");
  line.Option("milliseconds", "MS", "length of a measurement of this machine", "1500");
  line.Flag("json", "print JSON");
  DeclareConfigOptions(&line);
  return RunExecutable("dslide plan", line, argc, argv, MakePlan);
}

}  // namespace dslide
