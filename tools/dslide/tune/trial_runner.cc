#include "tools/dslide/tune/trial_runner.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/log/log.h"
#include "tools/dslide/cluster/child_process.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr int kPollMs = 50;
constexpr int kStopGraceMs = 10000;  // for a run that was asked to stop

// The last line that `dslide train` wrote as its error; else the last line.
std::string LastWords(const std::string& log) {
  std::ifstream file(log);
  std::string line, last, error;
  while (std::getline(file, line)) {
    if (auto words = FailureIn(line, "dslide train")) error = *std::move(words);
    if (!line.empty()) last = line;
  }
  return error.empty() ? last : error;
}

}  // namespace

std::string TrialRunner::Path(uint32_t number) const {
  return fmt::format("{}/trial-{}", directory_, number);
}

Status TrialRunner::Run(int64_t deadline_ms, Trial* trial) {
  const std::string path = Path(trial->number);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return BadInput(fmt::format("{}: cannot create: {}", path, error.message()));
  std::vector<std::string> arguments = {"train",
                                        "--config",
                                        base_,
                                        "--run-dir",
                                        path,
                                        "--servers",
                                        std::to_string(servers_),
                                        "--workers",
                                        std::to_string(workers_)};
  KeyValues settings = trial->settings;
  settings["checkpoint.directory"] = "";  // in the trial's own
  for (const auto& [key, value] : settings) {
    arguments.insert(arguments.end(), {"--set", key + "=" + value});
  }
  const int64_t started_ms = MonotonicMillis();
  Result<ChildProcess> child =
      ChildProcess::Start(fmt::format("trial {}", trial->number), ExecutableDirectory() + "/dslide",
                          arguments, path + "/train.log", false);
  DSLIDE_RETURN_IF_ERROR(child);
  const Status followed = Follow(deadline_ms, trial, &*child);
  trial->seconds = static_cast<double>(MonotonicMillis() - started_ms) / 1000;
  return followed;
}

Status TrialRunner::Follow(int64_t deadline_ms, Trial* trial, ChildProcess* child) {
  bool interrupted = false;
  while (!child->Poll()) {
    pollfd ready{signals_->fd(), POLLIN, 0};
    (void)poll(&ready, 1, kPollMs);
    if (signals_->Take()) {
      if (!interrupted) {
        say_(
            fmt::format("stopping trial {}; another signal, a second later or more, ends it at "
                        "once",
                        trial->number));
      }
      interrupted = true;
      child->Signal(SIGTERM);  // the second one ends it at once
    }
    if (interrupted || MonotonicMillis() < deadline_ms) continue;
    StopAll({child}, kStopGraceMs);
    trial->end = TrialEnd::kStopped;
    break;
  }
  exit_code_ = child->exit_code();
  if (interrupted && exit_code_ != 0) return Error{ErrorKind::kPreempted, "stopped"};
  if (exit_code_ == 0) {
    trial->end = TrialEnd::kFinished;
    ReadSummary(trial);
  } else if (trial->end != TrialEnd::kStopped) {
    trial->end = TrialEnd::kFailed;
    const std::string words = LastWords(child->log());
    trial->reason = words.empty() ? child->Ending() : words;
  }
  if (interrupted) return Error{ErrorKind::kPreempted, "stopped"};
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
