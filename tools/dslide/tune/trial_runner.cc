#include "tools/dslide/tune/trial_runner.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/dslide/cluster/train_child.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string TrialRunner::Path(uint32_t number) const {
  return fmt::format("{}/trial-{}", directory_, number);
}

Status TrialRunner::Run(int64_t deadline_ms, Trial* trial) {
  const std::string path = Path(trial->number);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return BadInput(fmt::format("{}: cannot create: {}", path, error.message()));
  std::vector<std::string> arguments = {"--config",  base_,
                                        "--run-dir", path,
                                        "--servers", std::to_string(servers_),
                                        "--workers", std::to_string(workers_)};
  KeyValues settings = trial->settings;
  settings["checkpoint.directory"] = "";  // in the trial's own
  for (const auto& [key, value] : settings) {
    arguments.insert(arguments.end(), {"--set", key + "=" + value});
  }
  const int64_t started_ms = MonotonicMillis();
  const auto on_interrupt = [&] {
    say_(fmt::format("stopping trial {}; another signal, a second later or more, ends it at once",
                     trial->number));
  };
  const Result<TrainOutcome> ended = RunTrain(
      fmt::format("trial {}", trial->number), arguments, path + "/train.log",
      [&] { return MonotonicMillis() >= deadline_ms; }, signals_, on_interrupt);
  DSLIDE_RETURN_IF_ERROR(ended);
  trial->seconds = static_cast<double>(MonotonicMillis() - started_ms) / 1000;
  exit_code_ = ended->exit_code;
  if (ended->interrupted && exit_code_ != 0) return Error{ErrorKind::kPreempted, "stopped"};
  if (exit_code_ == 0) {
    trial->end = TrialEnd::kFinished;
    ReadSummary(trial);
  } else if (ended->stopped) {
    trial->end = TrialEnd::kStopped;
  } else {
    trial->end = TrialEnd::kFailed;
    trial->reason = ended->reason;
  }
  if (ended->interrupted) return Error{ErrorKind::kPreempted, "stopped"};
  return {};
}

void TrialRunner::ReadSummary(Trial* trial) const {
  std::ifstream file(Path(trial->number) + "/summary.json");
  const auto summary = nlohmann::json::parse(file, nullptr, false);
  const auto read = [&](const std::string& name, double* value) {
    const bool has = summary.is_object() && summary.contains(name) && summary[name].is_number();
    if (has) *value = summary[name];
    return has;
  };
  for (const std::string& name : MeasureNames()) {
    if (double value = 0; read(name, &value)) trial->figures[name] = value;
  }
  if (read("cpu_seconds", &trial->cpu_seconds) && read("train_seconds", &trial->train_seconds) &&
      trial->figures.contains("p_at_1")) {
    return;
  }
  trial->end = TrialEnd::kFailed;
  trial->figures.clear();
  trial->reason = "its summary.json has no figures";
}

void TrialRunner::Reduce(const Trial& trial) const {
  std::error_code error;
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(Path(trial.number), error)) {
    const std::string name = entry.path().filename();
    const bool is_log = name == "logs" || name == "train.log";
    if (name == "summary.json" || name == "config.ini") continue;
    if (is_log && trial.end == TrialEnd::kFailed) continue;
    out.push_back(entry.path());
  }
  for (const fs::path& path : out) fs::remove_all(path, error);
}

}  // namespace dslide
