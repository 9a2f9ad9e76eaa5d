#include "tools/dslide/runs/found_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "common/checkpoint/disk_use.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/data/whole_file.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFinishedOutcome = "finished";  // in summary.json
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

std::string TextOf(const nlohmann::json& json, const char* key) {
  if (!json.is_object()) return "";
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

// Updates the run's P@1 by a record or a summary. A figure of fewer than 100 samples replaces none
// of more samples: the last segment of a stream may have three.
void UpdatePrecision(const nlohmann::json& record, FoundRun* run) {
  constexpr double kFewSamples = 100;
  const std::optional<double> now = NumberOf(record, "p_at_1");
  if (!now) return;
  const double samples = NumberOf(record, "evaluated_samples").value_or(kFewSamples);
  if (run->p_at_1 && samples < std::min(run->p_at_1_samples, kFewSamples)) return;
  run->p_at_1 = now;
  run->p_at_1_samples = samples;
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
    if (event == "evaluation") UpdatePrecision(record, run);
    if (event == "held_out") run->held_out = NumberOf(record, "p_at_1");
  }
}

std::string CheckpointsOf(const fs::path& directory) {
  const Result<Config> config = LoadConfig((directory / "config.ini").string(), {});
  if (config.ok() && !config->checkpoint.directory.empty()) return config->checkpoint.directory;
  return (directory / kCheckpointsName).string();
}

// The file that RocksDB locks in a database.
std::string LockOf(const std::string& database) { return database + "/LOCK"; }

struct flock WholeFile() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool IsLocked(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock = WholeFile();
  const bool locked = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return locked;
}

// The state of a run that nobody holds.
void ReadEnd(const fs::path& path, FoundRun* run) {
  const RunEnd end = EndOf(path.string());
  const nlohmann::json summary = JsonFile(path / "summary.json");
  const std::string outcome = TextOf(summary, "outcome");
  const bool has_summary = summary.is_object() && SummaryIsOf(end, outcome);
  if (has_summary) UpdatePrecision(summary, run);
  if (end == RunEnd::kFinished || (has_summary && outcome == kFinishedOutcome)) {
    run->kind = FoundRun::Kind::kFinished;
    run->progress = 1.0;
  } else if (end == RunEnd::kStopped || has_summary) {
    run->kind = FoundRun::Kind::kStopped;
    if (has_summary) run->outcome = outcome;
  } else if (std::error_code error; fs::exists(path / kLedgerName, error)) {
    run->kind = FoundRun::Kind::kEnded;
  }
}

bool IsStepName(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  return name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string_view::npos;
}

// As StoreName() has it: a server's name and its incarnation.
bool IsStoreName(std::string_view name) {
  constexpr std::string_view kPrefix = "store-";
  constexpr size_t kDigits = 16;
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + 2 + kDigits) return false;
  const size_t digits = name.size() - kDigits;
  return name[digits - 1] == '-' &&
         name.find_first_not_of("0123456789abcdef", digits) == std::string_view::npos;
}

// Why these are not the run's own checkpoints alone; "": they are.
std::string WhyNotItsOwn(const FoundRun& run, const std::vector<FoundRun>& others) {
  std::error_code error;
  const Result<Config> config = LoadConfig(run.directory + "/config.ini", {});
  if (!config.ok()) return config.error().message;
  const fs::path own = fs::path(run.directory) / kCheckpointsName;
  if (own != run.checkpoints && !fs::equivalent(own, run.checkpoints, error)) {
    return fmt::format("its checkpoints are in {}", run.checkpoints);
  }
  if (fs::is_symlink(own, error)) {
    return fmt::format("its checkpoints are in {}", fs::read_symlink(own, error).string());
  }
  for (const FoundRun& other : others) {
    if (fs::equivalent(other.directory, run.directory, error)) continue;
    if (fs::equivalent(other.checkpoints, own, error)) {
      return fmt::format("{} has its checkpoints there too", other.directory);
    }
  }
  return "";
}

// The newest checkpoint, which has to be whole before others go.
Result<Manifest> WholeCheckpoint(const std::string& directory) {
  Result<Manifest> manifest = ReadManifest(directory);
  DSLIDE_RETURN_IF_ERROR(manifest);
  std::error_code error;
  for (const ManifestShard& shard : manifest->shards) {
    const std::string path = fmt::format("{}/{}", directory, shard.directory);
    if (!fs::is_directory(path, error)) {
      return Failed(fmt::format("its newest checkpoint lacks {}", path));
    }
  }
  return manifest;
}

// Whether a directory in the checkpoints of a finished run can go.
bool CanGo(const fs::path& path, const std::string& newest, const Manifest& manifest) {
  const std::string name = path.filename().string();
  if (IsStepName(name)) {
    if (name == newest) return false;
    if (!HasManifest(path.string())) return true;
    const Result<Manifest> old = ReadManifest(path.string());
    return name < newest && old.ok() && old->run == manifest.run;
  }
  if (IsStoreName(name)) return !IsLocked(LockOf(path.string()));
  return ParseOrphanName(name).has_value();
}

}  // namespace

RunHolder HolderOf(const std::string& run_directory) {
  const std::string path = LockOf(fmt::format("{}/{}", run_directory, kLedgerName));
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  struct flock lock = WholeFile();
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

RunEnd EndOf(const std::string& run_directory) {
  const std::string path = fmt::format("{}/{}", run_directory, kLedgerName);
  const Result<std::optional<LedgerEntry>> last = Ledger::Last(path);
  if (!last.ok() || !last->has_value()) return RunEnd::kUnknown;
  const auto* stopped = std::get_if<LedgerStopped>(&**last);
  if (stopped == nullptr) return RunEnd::kNone;
  return stopped->finished ? RunEnd::kFinished : RunEnd::kStopped;
}

bool SummaryIsOf(RunEnd end, const std::string& outcome) {
  if (end == RunEnd::kUnknown) return true;
  return (outcome == kFinishedOutcome) == (end == RunEnd::kFinished);
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
  ReadEnd(path, &run);
  return run;
}

Result<std::vector<FoundRun>> RunsIn(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return BadInput(
        fmt::format("{}: no such directory; name one that has run directories in it", directory));
  }
  std::vector<fs::path> paths = {directory};
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.is_directory(error)) paths.push_back(entry.path());
  }
  // Links last: a run is listed by its own name.
  std::ranges::stable_partition(paths, [&](const fs::path& path) {
    return path == directory || !fs::is_symlink(path, error);
  });
  std::vector<FoundRun> runs;
  std::set<fs::path> seen;
  for (const fs::path& path : paths) {
    if (!seen.insert(fs::canonical(path, error)).second) continue;
    if (auto run = FindRun(path.string())) runs.push_back(*std::move(run));
  }
  std::ranges::sort(runs, {}, &FoundRun::name);
  return runs;
}

Result<std::vector<std::string>> RemovableOf(const FoundRun& run,
                                             const std::vector<FoundRun>& others) {
  std::vector<std::string> removable;
  if (run.kind != FoundRun::Kind::kFinished) return removable;
  if (const std::string why = WhyNotItsOwn(run, others); !why.empty()) return Failed(why);
  std::vector<std::string> complete = CompleteCheckpoints(run.checkpoints);
  std::erase_if(complete, [](const std::string& name) { return !IsStepName(name); });
  if (complete.empty()) return removable;
  const Result<Manifest> newest = WholeCheckpoint(run.checkpoints + "/" + complete.back());
  if (!newest.ok()) return Failed(newest.error().message);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run.checkpoints, error)) {
    if (entry.symlink_status(error).type() != fs::file_type::directory) continue;
    if (CanGo(entry.path(), complete.back(), *newest)) removable.push_back(entry.path().string());
  }
  std::ranges::sort(removable);
  return removable;
}

Result<HeldRun> HeldRun::Hold(const FoundRun& run) {
  const std::string path = LockOf(fmt::format("{}/{}", run.directory, kLedgerName));
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return TryLater(fmt::format("{}: {}", path, std::strerror(errno)));
  HeldRun held(fd);
  // Of this open file, not of the process: HolderOf() opens and closes the file again.
  struct flock lock = WholeFile();
  if (fcntl(fd, F_OFD_SETLK, &lock) != 0) return TryLater("another process has its ledger");
  FoundRun now;
  ReadEnd(run.directory, &now);
  if (now.kind != FoundRun::Kind::kFinished) {
    return TryLater(fmt::format("it is {} now", NameOf(now.kind)));
  }
  return held;
}

HeldRun::~HeldRun() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace dslide
