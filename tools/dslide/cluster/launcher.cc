#include "tools/dslide/cluster/launcher.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/checkpoint/checkpoint_hook.h"
#include "common/checkpoint/layout.h"
#include "common/log/log.h"
#include "common/security/run_keys.h"
#include "common/security/run_place.h"
#include "common/security/small_file.h"
#include "scheduler/ledger/ledger.h"
#include "tools/dslide/cluster/events.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr int kStopGraceMs = 5000;    // for children that were asked to stop
constexpr int kLeaveGraceMs = 10000;  // for members to leave after the scheduler
constexpr int kPollMs = 50;
constexpr char kSummaryName[] = "summary.json";
constexpr std::string_view kDiverged = "training diverged";  // begins a worker's last error

// The scheduler shows its progress on the same terminal, in a line that has no end yet.
void Say(const Event& event) {
  if (isatty(STDOUT_FILENO) == 1 && !LogsJson()) std::fputs("\r\x1b[K", stdout);
  PrintLine(event);
}

// The last error of an executable in its log from `start` on; "" if the log has no error.
std::string LastError(const std::string& path, std::streamoff start, const std::string& program) {
  std::ifstream log(path);
  log.seekg(start);
  std::string line, last;
  while (std::getline(log, line)) {
    if (auto failure = FailureIn(line, program)) last = *std::move(failure);
  }
  return last;
}

// Names the log of a process for the user, or says why it may lack the reason.
std::string SeeLog(const std::string& path) {
  std::error_code error;
  const fs::space_info disk = fs::space(path, error);
  if (!error && disk.available == 0) {
    return fmt::format("its log {} may lack the reason: that disk is full", path);
  }
  const auto size = fs::file_size(path, error);
  if (!error && size == 0) return fmt::format("its log {} is empty", path);
  return "see " + path;
}

std::string ServerName(uint32_t number) { return fmt::format("server-{}", number); }
std::string WorkerName(uint32_t number) { return fmt::format("worker-{}", number); }

}  // namespace

uint32_t LaunchedExecutors(uint32_t servers) {
  return std::max(1u, CoresOfThisMachine() / std::max(1u, servers));
}

Launcher::~Launcher() { StopAllChildren(); }

void Launcher::StopAllChildren() {
  std::vector<ChildProcess*> all;
  for (Child& child : children_) all.push_back(&child.process);
  StopAll(all, kStopGraceMs);
}

Status Launcher::Run() {
  const Status outcome = RunToEnd();
  if (outcome.ok() || outcome.error().kind != ErrorKind::kBadInput || !launch_.made) return outcome;
  StopAllChildren();
  if (!HasTrained()) launch_.made->Remove();
  return outcome;
}

// Also if another scheduler has the ledger. REQUIRES that the children have ended.
bool Launcher::HasTrained() {
  std::error_code error;
  if (!fs::exists(Path(kLedgerName), error)) return false;
  LedgerState state;
  return !Ledger::Open(Path(kLedgerName), &state).ok() || state.batches > 0;
}

Status Launcher::RunToEnd() {
  if (!launch_.notice.empty()) Say({event::kClusterNote, launch_.notice});
  DSLIDE_RETURN_IF_ERROR(Prepare());
  DSLIDE_RETURN_IF_ERROR(Add(Kind::kScheduler, "scheduler"));
  DSLIDE_RETURN_IF_ERROR(WaitForAddress());
  if (!scheduler().running()) return {};  // the run was finished before
  DSLIDE_RETURN_IF_ERROR(DrawMemberKeys());
  DSLIDE_RETURN_IF_ERROR(StartMembers());
  const auto how = [&](const char* key) {
    return Encrypted() ? fmt::format("--key {}", Path(key)) : "--scheduler " + Address();
  };
  Say({event::kClusterStarted, fmt::format("cluster: 1 scheduler, {}, {}; more may join by\n"
                                           "  dslide-worker {}\n  dslide-server {}",
                                           Plural(launch_.config.cluster.servers, "server"),
                                           Plural(launch_.config.cluster.workers, "worker"),
                                           how("keys/worker.key"), how("keys/server.key"))});
  return Follow();
}

Status Launcher::Prepare() {
  std::error_code error;
  fs::create_directories(Path("logs"), error);
  if (error) return BadInput(fmt::format("{}: cannot create: {}", Path("logs"), error.message()));
  // A scheduler by itself has its ledger for that; but it opens it late.
  Result<FileLock> lock = FileLock::Try(
      Path("train.lock"), launch_.run_directory + ": another dslide train works there");
  DSLIDE_RETURN_IF_ERROR(lock);
  lock_.emplace(*std::move(lock));
  old_address_ = IdentityOf(kAddressName);
  old_summary_ = IdentityOf(kSummaryName);
  return {};
}

Status Launcher::Add(Kind kind, const std::string& name) {
  Result<ChildProcess> process = Start(kind, name);
  DSLIDE_RETURN_IF_ERROR(process);
  children_.push_back({kind, std::move(*process), MonotonicMillis(), {}});
  return {};
}

Result<ChildProcess> Launcher::Start(Kind kind, const std::string& name) {
  const bool is_scheduler = kind == Kind::kScheduler;
  if (is_scheduler) {
    std::error_code error;
    const auto size = fs::file_size(Path("logs/scheduler.log"), error);
    log_start_ = error ? 0 : static_cast<std::streamoff>(size);
  }
  const char* program = is_scheduler            ? "dslide-scheduler"
                        : kind == Kind::kServer ? "dslide-server"
                                                : "dslide-worker";
  return ChildProcess::Start(name, ExecutableDirectory() + "/" + program, ArgumentsOf(kind, name),
                             Path("logs/" + name + ".log"), is_scheduler);
}

std::vector<std::string> Launcher::ArgumentsOf(Kind kind, const std::string& name) {
  std::vector<std::string> arguments =
      kind == Kind::kWorker ? std::vector<std::string>() : ConfigArguments(kind);
  if (kind != Kind::kScheduler) {
    arguments.insert(arguments.end(), {"--scheduler", Address(), "--name", name});
    if (Encrypted()) arguments.insert(arguments.end(), {"--key", KeyOf(kind, name)});
    return arguments;
  }
  arguments.insert(arguments.end(), {"--run-dir", launch_.run_directory});
  if (launch_.server_memory_mb > 0) {
    arguments.insert(arguments.end(),
                     {"--server-memory-mb", std::to_string(launch_.server_memory_mb)});
  }
  if (launch_.resume || (!children_.empty() && HasBegun())) arguments.push_back("--resume");
  return arguments;
}

std::vector<std::string> Launcher::ConfigArguments(Kind kind) const {
  std::vector<std::string> arguments;
  if (!launch_.config_file.empty()) arguments = {"--config", launch_.config_file};
  for (const std::string& value : launch_.overrides) {
    if (kind == Kind::kServer && !IsForServer(value)) continue;  // the scheduler tells it
    arguments.insert(arguments.end(), {"--set", value});
  }
  if (kind != Kind::kServer) return arguments;
  for (const std::string& value : launch_.of_servers) {
    arguments.insert(arguments.end(), {"--set", value});
  }
  return arguments;
}

bool Launcher::Encrypted() const { return IsEncrypted(launch_.config); }

// "" until the scheduler has written it. A restarted scheduler may have another address.
std::string Launcher::Address() const {
  const Result<std::string> address = ReadFirstLine(Path(kAddressName));
  return address.ok() ? *address : "";
}

// Tells a new file from an older one: each start of a scheduler writes a new address and summary.
Launcher::FileIdentity Launcher::IdentityOf(const std::string& name) const {
  struct stat file;
  if (stat(Path(name).c_str(), &file) != 0) return std::nullopt;
  return std::pair(uint64_t{file.st_ino},
                   int64_t{file.st_ctim.tv_sec} * 1'000'000'000 + file.st_ctim.tv_nsec);
}

// The scheduler reads its data first, then writes the address that it listens at. Until then the
// file may be that of an earlier launch, or of a launch that still uses the run directory. The
// first signal ends a stream: what has come is trained.
Status Launcher::WaitForAddress() {
  bool ends_stream = false;
  while (IdentityOf(kAddressName) == old_address_ || Address().empty()) {
    poll(nullptr, 0, kPollMs);
    if (signals_->Take()) {
      if (!launch_.config.train.open_vocabulary || std::exchange(ends_stream, true)) {
        return TryLater("stopped before training began");
      }
      scheduler().Signal(SIGTERM);
    }
    if (!scheduler().Poll()) continue;
    if (scheduler().exit_code() == 0) return {};  // the run is finished
    if (!scheduler().killed()) return SchedulerFailure();
    DSLIDE_RETURN_IF_ERROR(CheckDataIsLeft());
    DSLIDE_RETURN_IF_ERROR(StartAgain(&children_.front()));
  }
  return {};
}

// A scheduler that has died in this launch had begun its run if there is a ledger.
bool Launcher::HasBegun() const {
  std::error_code error;
  return fs::exists(Path(kLedgerName), error);
}

// What is read once is gone with a scheduler that had not begun its run. A stream goes on with what
// it has stored.
Status Launcher::CheckDataIsLeft() const {
  const TrainConfig& train = launch_.config.train;
  if (train.data != "-" || train.open_vocabulary || launch_.resume || HasBegun()) return {};
  return Failed(fmt::format(
      "the scheduler ended ({}) before the run began, and standard input is read once; give the "
      "command and the data again",
      children_.front().process.Ending()));
}

// Audits ask workers of other keys and give a key one vote, and complaints about a worker count
// from servers of two keys: with a key each, the members of one launch can check one another. Keys
// stay for a later launch.
Status Launcher::DrawMemberKeys() {
  if (!Encrypted()) return {};
  Result<RunKeys> keys = RunKeys::Open(launch_.run_directory);
  DSLIDE_RETURN_IF_ERROR(keys);
  const auto draw = [&](KeyRole role, const std::string& name) -> Status {
    const auto has_name = [&](const Grant& grant) { return grant.name == name; };
    if (std::ranges::any_of(keys->ring().grants(), has_name)) return {};
    const Result<MemberKey> key = keys->Allow({role, name, {}, SecondsSince1970()}, std::nullopt);
    return key.ok() ? Status() : key.error();
  };
  const ClusterConfig& cluster = launch_.config.cluster;
  for (uint32_t i = 1; i <= cluster.servers; ++i) {
    DSLIDE_RETURN_IF_ERROR(draw(KeyRole::kServer, ServerName(i)));
  }
  for (uint32_t i = 1; i <= cluster.workers; ++i) {
    DSLIDE_RETURN_IF_ERROR(draw(KeyRole::kWorker, WorkerName(i)));
  }
  return {};
}

// A member whose name was given to somebody with a key of their own takes the key of its role.
std::string Launcher::KeyOf(Kind kind, const std::string& name) const {
  const std::string own = Path(fmt::format("keys/{}.key", name));
  if (fs::exists(own)) return own;
  return Path(kind == Kind::kWorker ? "keys/worker.key" : "keys/server.key");
}

Status Launcher::StartMembers() {
  const ClusterConfig& cluster = launch_.config.cluster;
  for (uint32_t i = 1; i <= cluster.servers; ++i) {
    DSLIDE_RETURN_IF_ERROR(Add(Kind::kServer, ServerName(i)));
  }
  for (uint32_t i = 1; i <= cluster.workers; ++i) {
    DSLIDE_RETURN_IF_ERROR(Add(Kind::kWorker, WorkerName(i)));
  }
  return {};
}

Status Launcher::Follow() {
  while (true) {
    pollfd ready{signals_->fd(), POLLIN, 0};
    (void)poll(&ready, 1, kPollMs);
    if (signals_->Take()) {
      stopping_ = true;
      scheduler().Signal(SIGTERM);
    }
    for (size_t i = 1; i < children_.size(); ++i) {
      if (children_[i].process.Poll()) DSLIDE_RETURN_IF_ERROR(OnMemberEnd(&children_[i]));
    }
    scheduler().Poll();
    if (!scheduler().running()) {
      // A scheduler that was asked to stop is not restarted, however it ended.
      if (stopping_ || !scheduler().killed()) return AfterScheduler();
      DSLIDE_RETURN_IF_ERROR(StartAgain(&children_.front()));
    }
    StopWithoutWorkers();
  }
}

Status Launcher::OnMemberEnd(Child* child) {
  const ChildProcess& process = child->process;
  // The scheduler stops the run, and is about to end itself.
  const bool dismissed = process.exit_code() == ExitCode(ErrorKind::kPreempted);
  if (dismissed && (stopping_ || SchedulerEnds())) return {};
  if (stopping_ && process.WantsRestart() && SchedulerEnds()) return {};
  if (process.WantsRestart()) return StartAgain(child);
  if (process.exit_code() == 0) return {};
  if (child->kind == Kind::kServer) {
    const bool refused = process.exit_code() == ExitCode(ErrorKind::kBadInput);
    return !refused && SchedulerEnds() ? Status() : CannotGoOn(*child, process.Ending());
  }
  const std::string why = LastError(process.log(), 0, "dslide-worker");
  if (why.starts_with(kDiverged)) diverged_ = fmt::format("{}: {}", process.name(), why);
  Say({event::kChildEnded,
       fmt::format("{} ended ({}), {}; the others continue", process.name(), process.Ending(),
                   SeeLog(process.log())),
       {{"name", process.name()}}});
  return {};
}

Status Launcher::StartAgain(Child* child) {
  const int64_t now_ms = MonotonicMillis();
  const std::string name = child->process.name();
  const std::string ending = child->process.Ending();
  const std::string why_not = child->restarts.WhyNot(now_ms - child->started_ms, now_ms);
  if (!why_not.empty()) return CannotGoOn(*child, ending + "; " + why_not);
  Result<ChildProcess> process = Start(child->kind, name);
  DSLIDE_RETURN_IF_ERROR(process);
  child->process = std::move(*process);
  child->started_ms = now_ms;
  Say({event::kChildRestarted,
       fmt::format("{} ended ({}), started again", name, ending),
       {{"name", name}}});
  return {};
}

Error Launcher::CannotGoOn(const Child& child, const std::string& ending) const {
  const std::string& name = child.process.name();
  const std::string why = LastError(child.process.log(), 0, "dslide-server");
  if (child.process.exit_code() == ExitCode(ErrorKind::kBadInput) && !why.empty()) {
    return BadInput(fmt::format("{}: {}", name, why));
  }
  return Failed(
      fmt::format("{} ended ({}), {}; continue from the last checkpoint with --resume "
                  "--run-dir {}",
                  name, ending, SeeLog(child.process.log()), launch_.run_directory));
}

// Workers end with 0 when told to stop; no other worker may ever join.
void Launcher::StopWithoutWorkers() {
  const auto is_left = [](const Child& child) {
    return child.kind == Kind::kWorker && child.process.running();
  };
  if (launch_.config.cluster.workers == 0 || stopping_ ||
      std::any_of(children_.begin(), children_.end(), is_left) || SchedulerEnds()) {
    return;
  }
  stopping_ = true;  // once: a second signal means at once
  scheduler().Signal(SIGTERM);
  Say({event::kClusterStopping, "all workers of this launch have ended; stopping"});
}

// Whether the scheduler ends within kStopGraceMs: it dismisses members a moment before its end. Or
// its run is over, and it waits for checkpoint.hook.
bool Launcher::SchedulerEnds() {
  const int64_t deadline_ms = MonotonicMillis() + kStopGraceMs;
  while (MonotonicMillis() < deadline_ms) {
    scheduler().Poll();
    if (!scheduler().running()) return true;
    poll(nullptr, 0, kPollMs);
  }
  return WaitsForHook();
}

bool Launcher::WaitsForHook() const {
  if (launch_.config.checkpoint.hook.empty()) return false;
  const FileIdentity summary = IdentityOf(kSummaryName);  // written at a run's end
  return summary && summary != old_summary_;
}

bool Launcher::Running(std::optional<Kind> kind) {
  for (Child& child : children_) child.process.Poll();
  return std::ranges::any_of(children_, [&](const Child& child) {
    return child.process.running() && (!kind || child.kind == *kind);
  });
}

// Members leave. Servers that have a hook may need as long as it may run. A signal ends the wait.
void Launcher::AwaitLeaving() {
  const int64_t began_ms = MonotonicMillis();
  const bool has_hook = !launch_.config.checkpoint.shard_hook.empty();
  const int64_t hook_ms = has_hook ? CheckpointHook::kTimeoutMs + CheckpointHook::kKillMs : 0;
  while (Running({})) {
    const int64_t waited_ms = MonotonicMillis() - began_ms;
    if (waited_ms >= kLeaveGraceMs && !Running(Kind::kServer)) return;
    if (waited_ms >= kLeaveGraceMs + hook_ms) return;
    pollfd ready{signals_->fd(), POLLIN, 0};
    (void)poll(&ready, 1, kPollMs);
    if (signals_->Take()) return;
  }
}

Status Launcher::AfterScheduler() {
  AwaitLeaving();
  if (!diverged_.empty() && scheduler().exit_code() != 0) return Failed(diverged_);
  if (scheduler().exit_code() != 0) return SchedulerFailure();
  Say({event::kClusterDone,
       fmt::format("run directory  {}\ncheckpoint     {}\nsummary        {}", launch_.run_directory,
                   Path(kCheckpointsName), Path(kSummaryName)),
       {{"run_directory", launch_.run_directory}}});
  return {};
}

// The scheduler's own last line, with its exit code.
Error Launcher::SchedulerFailure() {
  // The scheduler's earlier lives wrote into the same log.
  std::string last = LastError(scheduler().log(), log_start_, "dslide-scheduler");
  if (last.empty()) {
    last = fmt::format("the scheduler ended ({}), {}", scheduler().Ending(),
                       SeeLog(scheduler().log()));
  }
  for (const ErrorKind kind : {ErrorKind::kBadInput, ErrorKind::kTryLater, ErrorKind::kPreempted}) {
    if (scheduler().exit_code() == ExitCode(kind)) return {kind, last};
  }
  return Failed(last);
}

}  // namespace dslide
