#include "tools/dslide/report/run_directory.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/app/executable.h"
#include "common/base/check.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/config/config_keys.h"
#include "common/config/value_scale.h"
#include "common/data/whole_file.h"
#include "common/text/records/json_depth.h"
#include "scheduler/status/history.h"
#include "scheduler/status/run_costs.h"
#include "scheduler/status/summary.h"
#include "tools/dslide/cluster/launcher.h"
#include "tools/dslide/runs/found_run.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Time over all lives of the scheduler: each begins where the one before was heard of last.
class Lives {
 public:
  double At(double elapsed_s) {
    if (elapsed_s < last_s_) before_s_ += last_s_;
    last_s_ = elapsed_s;
    return before_s_ + elapsed_s;
  }

 private:
  double before_s_ = 0;
  double last_s_ = 0;
};

// Earlier versions wrote a record where no batch had counted: all figures are 0.
bool IsEmpty(const Json& record) {
  return record.at("loss") == 0 && record.at("active_neurons_per_sample") == 0;
}

ProgressPoint ProgressOf(const Json& record, double elapsed_s, uint32_t epochs) {
  ProgressPoint point;
  point.elapsed_s = elapsed_s;
  point.epochs = record.at("progress").get<double>() * epochs;
  point.samples_per_second = record.at("samples_per_second");
  point.loss = record.at("loss");
  point.bytes_sent = record.at("bytes_sent_per_sample");
  point.bytes_received = record.at("bytes_received_per_sample");
  point.neurons = record.at("active_neurons_per_sample");
  if (record.contains("tail_error")) point.tail = record["tail_error"].get<double>();
  if (record.contains("active_set_recall_at_10")) {
    point.recall = record["active_set_recall_at_10"].get<double>();
  }
  return point;
}

EvaluationPoint EvaluationOf(const Json& record, double elapsed_s) {
  EvaluationPoint point;
  point.elapsed_s = elapsed_s;
  point.epochs = record.at("epochs_trained");
  point.metrics.samples = record.at("evaluated_samples");
  point.metrics.without_labels = record.value("evaluated_without_labels", uint64_t{0});
  for (const size_t k : {1, 3, 5}) {
    point.metrics.precision[k - 1] = record.at(fmt::format("p_at_{}", k));
    point.metrics.ndcg[k - 1] = record.at(fmt::format("ndcg_at_{}", k));
    point.metrics.propensity_precision[k - 1] = record.at(fmt::format("psp_at_{}", k));
  }
  return point;
}

LoadPoint LoadsOf(const Json& record, double elapsed_s) {
  LoadPoint point;
  point.elapsed_s = elapsed_s;
  for (const Json& server : record.at("servers")) {
    point.servers[server.at("name")] = {server.at("load"), server.at("slots")};
  }
  return point;
}

std::vector<EventField> EventFieldsOf(const Json& json) {
  std::vector<EventField> fields;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number_integer()) {
      fields.emplace_back(name, value.get<int64_t>());
    } else if (value.is_number()) {
      fields.emplace_back(name, value.get<double>());
    } else if (value.is_string()) {
      fields.emplace_back(name, value.get<std::string>());
    }
  }
  return fields;
}

RunEvent EventOf(const Json& record, double at_s) {
  return {at_s, record.value("code", ""), record.at("text"),
          record.contains("fields") ? EventFieldsOf(record["fields"]) : std::vector<EventField>()};
}

// What metrics.jsonl says besides the history.
struct Recorded {
  uint32_t starts = 0;  // of the scheduler
  std::optional<DataFacts> data;
  float median_length = 1;  // of a training sample
};

Status AddRecords(const std::string& directory, uint32_t epochs, RunFacts* facts,
                  Recorded* recorded, std::vector<std::function<void(RunHistory*)>>* additions) {
  Lives lives;
  return ReadRecords(directory + "/metrics.jsonl", [&](const Json& record) {
    const std::string event = record.at("event");
    const double at_s = lives.At(record.at("elapsed_s"));
    const auto add = [&](auto point) {
      additions->push_back([point](RunHistory* history) { history->Add(point); });
    };
    if (event == "start") {
      facts->train_samples = record.at("train_samples");
      facts->test_samples = record.at("test_samples");
      facts->held_out_samples = record.value("held_out_samples", uint64_t{0});
      recorded->starts++;
      if (record.contains("label_repeats")) {
        recorded->data = {record.at("train_samples"), record.at("label_repeats"),
                          record.value("median_label_samples", uint64_t{0})};
        recorded->median_length = record.value("median_length", recorded->median_length);
      }
    } else if (event == "progress") {
      if (!IsEmpty(record)) add(ProgressOf(record, at_s, epochs));
    } else if (event == "evaluation") {
      add(EvaluationOf(record, at_s));
    } else if (event == "held_out") {
      additions->push_back([point = EvaluationOf(record, at_s)](RunHistory* history) {
        history->AddHeldOut(point);
      });
    } else if (event == "lost") {
      additions->push_back([loss = ServerLoss{at_s, record.at("server")}](RunHistory* history) {
        history->AddLoss(loss);
      });
    } else if (event == "notice") {
      additions->push_back(
          [event = EventOf(record, at_s)](RunHistory* history) { history->AddEvent(event); });
    }
  });
}

// Files that runs of earlier versions, or without servers or evaluations, do not have.
Status AddOptionalFiles(const std::string& directory, RunHistory* history) {
  std::error_code error;
  if (fs::exists(directory + "/loads.jsonl", error)) {
    Lives lives;
    DSLIDE_RETURN_IF_ERROR(ReadRecords(directory + "/loads.jsonl", [&](const Json& record) {
      history->Add(LoadsOf(record, lives.At(record.at("elapsed_s"))));
    }));
  }
  std::vector<Example> examples;
  if (fs::exists(directory + "/examples.jsonl", error)) {
    DSLIDE_RETURN_IF_ERROR(ReadRecords(directory + "/examples.jsonl", [&](const Json& record) {
      examples.push_back({record.at("number"), record.at("labels"), record.at("predicted")});
    }));
  }
  history->SetExamples(std::move(examples));
  return {};
}

// [key, value, usual, default] of every key. `usual` is the key's value if nobody had
// set it, with all other keys as they are: the default, or a derived value in its place. If the
// data was not recorded, values are derived as for large data, and the kind of the neurons counts
// as derived. For a run of dslide train, `usual` is the value of the same launch on this machine.
OrderedJson ConfigJson(const Config& config, const Recorded& recorded) {
  std::optional<DataFacts> data = recorded.data;
  if (!data) {
    data.emplace();
    if (!LearnsNeurons(config.model)) data->label_repeats = 0;
  }
  const Config defaults;
  Config plain;
  if (config.cluster.scheduler_bind == kLaunchedBind) {  // by dslide train
    plain.cluster.scheduler_bind = kLaunchedBind;
    plain.cluster.executors = LaunchedExecutors(config.cluster.servers);
  }
  OrderedJson json = OrderedJson::array();
  for (const ConfigKey& key : ConfigKeys()) {
    Config usual = config;
    DSLIDE_CHECK(key.field.parse(key.field.format(plain), &usual));
    if (config.model.features > 0 && config.model.labels > 0) {
      ResolveNormalize(recorded.median_length, &usual.train);
      ResolveConfig(config.model.features, config.model.labels, &usual, *data);
    }
    json.push_back({key.FullName(), key.field.format(config), key.field.format(usual),
                    key.field.format(defaults)});
  }
  return json;
}

// summary.json; null if the run has not ended, or goes on.
Result<OrderedJson> SummaryOf(const std::string& directory, uint32_t starts) {
  const std::string path = directory + "/summary.json";
  std::error_code error;
  if (!fs::exists(path, error) || HolderOf(directory).held) return OrderedJson();
  const Result<std::string> text = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(text);
  OrderedJson summary = IsNestedTooDeep(*text)
                            ? OrderedJson()
                            : OrderedJson::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) return BadInput(fmt::format("{}: not a JSON object", path));
  if (summary.contains("outcome") && !summary["outcome"].is_string()) {
    return BadInput(fmt::format("{}: not a summary of a run (its outcome is no text)", path));
  }
  if (!SummaryIsOf(EndOf(directory), summary.value("outcome", ""))) return OrderedJson();
  // Those of earlier versions counted the last start only.
  if (starts > 1 && !summary.contains("whole_run")) summary["whole_run"] = false;
  return summary;
}

// What the totals of a run without a summary say; null if there are none.
OrderedJson CostsSoFar(const std::string& directory) {
  const Result<std::string> text = ReadWholeFile(directory + "/" + kTotalsName);
  if (!text.ok()) return {};
  const Result<RunCosts> costs = ParseCosts(*text);
  if (!costs.ok() || costs->work.samples == 0) return {};
  OrderedJson json;
  AddCosts(*costs, &json);
  return json;
}

std::string CheckpointsOf(const std::string& run_directory, const Config& config) {
  return config.checkpoint.directory.empty() ? run_directory + "/" + kCheckpointsName
                                             : config.checkpoint.directory;
}

}  // namespace

Status ReadRecords(const std::string& path, const std::function<void(const Json&)>& take) {
  const Result<std::string> text = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(text);
  size_t number = 0;
  for (size_t begin = 0, end; (end = text->find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    ++number;
    const std::string_view line = std::string_view(*text).substr(begin, end - begin);
    const auto damaged = [&](const char* reason) {
      return BadInput(
          fmt::format("{}:{}: {}; remove the line to report without it", path, number, reason));
    };
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) return damaged("not a JSON object");
    try {
      take(record);
    } catch (const Json::exception&) {
      return damaged("not a record of a run");
    }
  }
  return {};
}

std::vector<std::string> FilesOfRun(const std::string& run_directory) {
  std::vector<std::string> files;
  for (const char* name : {"config.ini", "metrics.jsonl", "loads.jsonl", "examples.jsonl",
                           "summary.json", kTotalsName}) {
    files.push_back(run_directory + "/" + name);
  }
  const Result<Config> config = LoadConfig(files.front(), {});
  if (!config.ok()) return files;
  const std::string checkpoints = CheckpointsOf(run_directory, *config);
  for (const std::string& name : CompleteCheckpoints(checkpoints)) {
    files.push_back(checkpoints + "/" + name + "/" + kManifestName);
  }
  return files;
}

Result<OrderedJson> ReadRunDirectory(const std::string& run_directory) {
  std::error_code error;
  if (!fs::is_directory(run_directory, error)) {
    return BadInput(fmt::format(
        "{}: {}", run_directory,
        fs::exists(run_directory, error) ? "is no run directory" : "no such directory"));
  }
  for (const char* name : {"config.ini", "metrics.jsonl"}) {
    if (fs::exists(fs::path(run_directory) / name, error)) continue;
    return BadInput(
        fmt::format("{}: not a run directory, there is no {} in it", run_directory, name));
  }
  const Result<Config> config = LoadConfig(run_directory + "/config.ini", {});
  DSLIDE_RETURN_IF_ERROR(config);
  RunContext context;
  context.config = *config;
  RunFacts facts = FactsOf(context, fs::absolute(run_directory).string());
  std::vector<std::function<void(RunHistory*)>> additions;
  Recorded recorded;
  DSLIDE_RETURN_IF_ERROR(
      AddRecords(run_directory, config->train.epochs, &facts, &recorded, &additions));
  RunHistory history(facts);
  for (const auto& add : additions) add(&history);
  DSLIDE_RETURN_IF_ERROR(AddOptionalFiles(run_directory, &history));
  history.SetCheckpoints(CheckpointsIn(CheckpointsOf(run_directory, *config)));
  const Result<OrderedJson> summary = SummaryOf(run_directory, recorded.starts);
  DSLIDE_RETURN_IF_ERROR(summary);
  const std::string outcome =
      summary->is_null() ? "no summary: the run goes on, or was broken off"
                         : summary->value("outcome", std::string("no outcome in summary.json"));
  OrderedJson json;
  json["name"] = facts.name;
  json["state"] = outcome;
  json["finished"] = outcome == "finished";
  json["history"] = history.Json(WallClockSeconds());
  json["summary"] = *summary;
  if (summary->is_null()) json["so_far"] = CostsSoFar(run_directory);
  json["config"] = ConfigJson(*config, recorded);
  return json;
}

}  // namespace dslide
