#include "tools/dslide/runs/found_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/checkpoint/disk_use.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/data/whole_file.h"
#include "scheduler/status/run_costs.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr std::streamoff kTailBytes = 256
                                      << 10;  // of metrics.jsonl, looked at for the last records

nlohmann::json JsonFile(const fs::path& path) {
  const Result<std::string> text = ReadWholeFile(path.string());
  return text.ok() ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
}

std::optional<double> NumberOf(const nlohmann::json& json, const char* key) {
  if (!json.is_object()) return std::nullopt;
  const auto at = json.find(key);
  return at != json.end() && at->is_number() ? std::optional<double>(*at) : std::nullopt;
}

// Progress and P@1 by the last records that have them.
void ReadRecords(const fs::path& path, FoundRun* run) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object()) continue;  // cut off at either end
    const std::string event = record.value("event", "");
    if (event == "progress") run->progress = NumberOf(record, "progress");
    if (event == "evaluation") run->p_at_1 = NumberOf(record, "p_at_1");
  }
}

std::string CheckpointsOf(const fs::path& directory) {
  const Result<Config> config = LoadConfig((directory / "config.ini").string(), {});
  if (config.ok() && !config->checkpoint.directory.empty()) return config->checkpoint.directory;
  return (directory / kCheckpointsName).string();
}

// Whether summary.json is of the last life of the scheduler, which begins by writing its totals.
bool SummaryIsNewest(const fs::path& directory) {
  std::error_code error;
  const auto summary = fs::last_write_time(directory / "summary.json", error);
  if (error) return false;
  const auto totals = fs::last_write_time(directory / kTotalsName, error);
  return error || summary >= totals;
}

}  // namespace

RunHolder HolderOf(const std::string& run_directory) {
  const std::string path = fmt::format("{}/{}/LOCK", run_directory, kLedgerName);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  RunHolder holder;
  if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) {
    holder.held = true;
    std::ifstream name(fmt::format("/proc/{}/comm", lock.l_pid));
    std::string comm;
    // The kernel keeps 15 characters.
    if (lock.l_pid > 0 && std::getline(name, comm) &&
        comm == std::string("dslide-scheduler").substr(0, 15)) {
      holder.pid = lock.l_pid;
    }
  }
  close(fd);
  return holder;
}

const char* NameOf(FoundRun::Kind kind) {
  switch (kind) {
    case FoundRun::Kind::kEmpty:
      return "not begun";
    case FoundRun::Kind::kRunning:
      return "running";
    case FoundRun::Kind::kStopped:
      return "stopped";
    case FoundRun::Kind::kEnded:
      return "killed";
    case FoundRun::Kind::kFinished:
      return "finished";
  }
  return "";
}

std::optional<FoundRun> FindRun(const std::string& directory) {
  const fs::path path = fs::path(directory);
  std::error_code error;
  if (!fs::exists(path / "config.ini", error)) return std::nullopt;
  FoundRun run;
  fs::path plain = fs::absolute(path, error).lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();  // of "runs/a/"
  run.name = plain.filename().string();
  run.directory = directory;
  run.checkpoints = CheckpointsOf(path);
  run.bytes = BytesUnder({directory, run.checkpoints});
  run.holder = HolderOf(directory);
  ReadRecords(path / "metrics.jsonl", &run);
  if (run.holder.held) {
    run.kind = FoundRun::Kind::kRunning;
    return run;
  }
  const nlohmann::json summary = JsonFile(path / "summary.json");
  if (SummaryIsNewest(path) && summary.is_object()) {
    run.outcome = summary.value("outcome", "");
    run.kind = run.outcome == "finished" ? FoundRun::Kind::kFinished : FoundRun::Kind::kStopped;
    if (const auto p_at_1 = NumberOf(summary, "p_at_1")) run.p_at_1 = p_at_1;
    if (run.kind == FoundRun::Kind::kFinished) {
      run.outcome.clear();
      run.progress = 1.0;
    }
  } else if (fs::exists(path / kLedgerName, error)) {
    run.kind = FoundRun::Kind::kEnded;
  }
  return run;
}

Result<std::vector<FoundRun>> RunsIn(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return BadInput(
        fmt::format("{}: no such directory; name one that has run directories in it", directory));
  }
  std::vector<FoundRun> runs;
  if (auto run = FindRun(directory)) runs.push_back(*std::move(run));
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (!entry.is_directory(error)) continue;
    if (auto run = FindRun(entry.path().string())) runs.push_back(*std::move(run));
  }
  std::ranges::sort(runs, {}, &FoundRun::name);
  return runs;
}

std::vector<std::string> RemovableOf(const FoundRun& run) {
  std::vector<std::string> removable;
  const std::vector<std::string> complete = CompleteCheckpoints(run.checkpoints);
  if (run.kind != FoundRun::Kind::kFinished || complete.empty()) return removable;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run.checkpoints, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_old = IsCheckpointName(name) && name != complete.back();
    const bool is_left = ParseOrphanName(name) || name.starts_with("store-");
    if (entry.is_directory(error) && (is_old || is_left))
      removable.push_back(entry.path().string());
  }
  std::ranges::sort(removable);
  return removable;
}

}  // namespace dslide
