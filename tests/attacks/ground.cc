#include "tests/attacks/ground.h"

#include <fmt/core.h>
#include <fmt/os.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/base/process.h"
#include "common/base/random.h"
#include "common/checkpoint/manifest.h"
#include "common/idle/user_files.h"
#include "common/security/run_keys.h"
#include "tests/attacks/strike.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr int kTrain = 10000;
constexpr int kStream = 1'000'000;  // more than are trained
constexpr int kTest = 2000;
constexpr int kOthers = 2;  // features of other labels that a sample has
constexpr int kBeginMs = 120000;
constexpr double kLearned = 0.97;  // P@1 of a run that is worth an attack
constexpr int kStopMs = 40000;
constexpr int kFinishMs = 60000;
constexpr int kLookMs = 15000;
constexpr int64_t kLongAgo = 1'000'000'000;

KeyRole RoleOf(As as) {
  switch (as) {
    case As::kObserver:
      return KeyRole::kObserver;
    case As::kServer:
      return KeyRole::kServer;
    default:
      return KeyRole::kWorker;
  }
}

// The value behind a word of a process's command line; "" if there is none.
std::string ArgumentOf(pid_t pid, const std::string& option) {
  const std::string line = ReadFile(fmt::format("/proc/{}/cmdline", pid));
  const std::string word = option + '\0';
  const size_t at = line.find(word);
  return at == std::string::npos ? "" : std::string(line.c_str() + at + word.size());
}

uint64_t ResidentBytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4096;
}

// Samples whose label has one feature, nearly outdone by those of other labels: what is learned has
// a narrow margin, so that damage shows.
void WriteNarrowSamples(const std::string& path, int samples, uint64_t seed) {
  Random random(seed);
  auto file = fmt::output_file(path);
  file.print("{} {} {}\n", samples, kFeatures, kLabels);
  for (int i = 0; i < samples; ++i) {
    const uint64_t label = random.Below(kLabels);
    std::map<uint64_t, double> values = {{label, 1.0}};
    for (int other = 0; other < kOthers; ++other) values.try_emplace(random.Below(kLabels), 0.5);
    file.print("{}", label);
    for (const auto& [feature, value] : values) file.print(" {}:{}", feature, value);
    file.print("\n");
  }
}

// Writes such samples as text: each feature is a word, and the word of the label occurs twice.
void WriteNarrowTexts(const std::string& path, int samples, uint64_t seed) {
  Random random(seed);
  auto file = fmt::output_file(path);
  for (int i = 0; i < samples; ++i) {
    const uint64_t label = random.Below(kLabels);
    file.print(R"({{"text": "word{0} word{0})", label);
    for (int other = 0; other < kOthers; ++other) file.print(" word{}", random.Below(kLabels));
    file.print(R"(", "labels": ["label{}"]}})", label);
    file.print("\n");
  }
}

bool IsHonest(const nlohmann::json& member) {
  return member.value("role", "") == "worker" && member.value("name", "").starts_with("worker-");
}

}  // namespace

const char* NameOf(Training training) {
  if (training == Training::kStream) return "a stream";
  return training == Training::kSynchronous ? "synchronous" : "asynchronous";
}

GroundOptions GroundOf(const Attack& attack, bool all_plain, Training all) {
  return {!attack.on.plain && !all_plain, attack.on.synchronous ? Training::kSynchronous : all,
          attack.on.workers, attack.on.first, attack.on.serves};
}

Ground::Ground(const GroundOptions& options) : options_(options) {
  const bool stream = options_.training == Training::kStream;
  const auto write = stream ? WriteNarrowTexts : WriteNarrowSamples;
  write(Samples("attacked"), stream ? kStream : kTrain, 1);
  write(Samples("measured"), kTest, 2);
}

Ground::~Ground() {
  workers_.clear();
  train_.reset();
  KillMembers();
}

// A scheduler that hangs outlives the process that has started it. The run's directory in the
// command line tells that the process is still the same one.
void Ground::KillMembers() const {
  for (const auto& [name, pid] : members_) {
    const std::string line = ReadFile(fmt::format("/proc/{}/cmdline", pid));
    if (line.find(run_.run_directory()) != std::string::npos) (void)kill(pid, SIGKILL);
  }
}

Arguments Ground::Settings() const {
  Arguments settings = {"--servers", std::to_string(kServers), "--workers",
                        std::to_string(options_.waits ? 0 : options_.workers)};
  const auto set = [&](const std::string& assignment) {
    settings.insert(settings.end(), {"--set", assignment});
  };
  set("train.data=" + Samples("attacked"));
  set("train.test=" + Samples("measured"));
  set("train.evaluate_samples=200");
  set("checkpoint.interval_s=2");
  set("cluster.heartbeat_ms=200");
  set("cluster.request_timeout_ms=1000");
  set("cluster.lease_timeout_ms=3000");
  set("cluster.takeover_s=2");
  if (options_.encrypted) set("security.encryption=always");
  if (options_.training == Training::kStream) {
    set("train.open_vocabulary=true");
    set("train.epochs=0");
    set("train.segment_samples=4096");
  } else {
    set("train.epochs=2000");
  }
  if (options_.training == Training::kSynchronous) {
    set("train.staleness=0");
    set(fmt::format("train.target_batch={}", std::max(128, 32 * options_.workers)));
    set("train.audit=0.1");
  }
  return settings;
}

std::string Ground::Samples(const std::string& name) const {
  return run_.Path(name + (options_.training == Training::kStream ? ".jsonl" : ".txt"));
}

Status Ground::Begin(const std::vector<const Attack*>& attacks) {
  train_ = run_.Train(Settings(), Delay());
  const auto is_ready = [&](const nlohmann::json& status) {
    if (!options_.waits) return status.value("p_at_1", 0.0) >= kLearned;
    const auto members = status.value("members", nlohmann::json::array());
    return std::ranges::count_if(members, [](const auto& member) {
             return member.value("role", "") == "server";
           }) == kServers;
  };
  if (!Awaits(is_ready)) return Failed("the cluster does not train\n" + LastLines());
  for (const pid_t pid : Descendants(train_->pid())) {
    const std::string name = ArgumentOf(pid, "--name");
    members_[name.empty() ? "scheduler" : name] = pid;
  }
  if (options_.serves) DSLIDE_RETURN_IF_ERROR(StartServing());
  return DrawKeys(attacks);
}

// Workers wait after every batch: many of them wait longer.
std::string Ground::Delay() const {
  return fmt::format("worker.before-report=delay:{}", std::max(10, 5 * options_.workers));
}

// False: the run has ended, or kBeginMs have passed before it is in this state.
bool Ground::Awaits(const std::function<bool(const nlohmann::json& status)>& state) const {
  const auto is_there = [&] {
    const nlohmann::json status = run_.Status();
    return status.is_object() && state(status);
  };
  return WaitFor([&] { return is_there() || !train_->Running(); }, kBeginMs) && train_->Running();
}

bool Ground::BringWorkers() {
  for (int i = 1; i <= options_.workers; ++i) {
    Arguments arguments = {"--name", fmt::format("worker-{}", i)};
    if (options_.encrypted) {
      arguments.insert(arguments.end(), {"--key", run_.run_directory() + "/keys/worker.key"});
    } else {
      arguments.insert(arguments.end(), {"--scheduler", run_.SchedulerAddress()});
    }
    workers_.push_back(run_.Start("dslide-worker", arguments, Delay()));
  }
  return Awaits(
      [](const nlohmann::json& status) { return status.value("p_at_1", 0.0) >= kLearned; });
}

// Serves the newest checkpoint, and no later one.
Status Ground::StartServing() {
  if (!WaitFor([&] { return FindCheckpoint(run_.run_directory()).ok(); }, kBeginMs)) {
    return Failed("the cluster writes no checkpoint\n" + LastLines());
  }
  serve_ = run_.Start(
      "dslide", {"serve", run_.run_directory(), "--bind", "tcp://127.0.0.1:*", "--reload", "0"});
  const auto serves = [&] { return serve_->Output().ends_with("/\n"); };
  if (!WaitFor([&] { return serves() || !serve_->Running(); }, kBeginMs) || !serves()) {
    return Failed("dslide serve does not start\n" + serve_->Errors());
  }
  const std::string output = serve_->Output();
  serve_port_ = std::stoi(output.substr(output.rfind(':') + 1));
  members_["serve"] = serve_->pid();
  return {};
}

Status Ground::DrawKeys(const std::vector<const Attack*>& attacks) {
  if (!options_.encrypted) return {};
  Result<RunKeys> keys = RunKeys::Open(run_.run_directory());
  DSLIDE_RETURN_IF_ERROR(keys);
  for (const Attack* attack : attacks) {
    if (attack->as == As::kNobody || attack->as == As::kWrongKey) continue;
    Grant grant = {RoleOf(attack->as), KeyNameOf(*attack), {}, SecondsSince1970()};
    if (attack->as == As::kExpired) grant.expires_s = kLongAgo;
    const Result<MemberKey> key = keys->Allow(grant, std::nullopt);
    DSLIDE_RETURN_IF_ERROR(key);
    if (attack->as == As::kRotated) {
      DSLIDE_RETURN_IF_ERROR(keys->Rotate(grant.name, grant.added_s + 1, grant.added_s));
    } else if (attack->as == As::kRevoked) {
      DSLIDE_RETURN_IF_ERROR(keys->Revoke(grant.name));
    } else {
      continue;
    }
    // Its holder still has it.
    DSLIDE_RETURN_IF_ERROR(WriteKeyFile(keys->FileOf(grant.name), *key, ""));
  }
  return {};
}

Arguments Ground::Access() const {
  if (options_.encrypted) return {"--key", run_.run_directory() + "/keys/operator.key"};
  return {"--scheduler", run_.SchedulerAddress()};
}

Reading Ground::Look() {
  Arguments arguments = {"status", "--json"};
  const Arguments access = Access();
  arguments.insert(arguments.end(), access.begin(), access.end());
  Reading reading;
  const int64_t began_ms = MonotonicMillis();
  const auto process = run_.Start("dslide", arguments);
  const std::optional<int> code = process->Wait(kLookMs);
  reading.at_ms = MonotonicMillis();
  reading.took_ms = reading.at_ms - began_ms;
  if (code == 0) reading.status = nlohmann::json::parse(process->Output(), nullptr, false);
  return reading;
}

double Ground::HonestRate(const Reading& before, const Reading& after) {
  if (!before.status.is_object() || !after.status.is_object()) return 0;
  std::map<std::string, double> had;
  for (const auto& member : before.status["members"]) {
    if (IsHonest(member)) had[member["name"]] = member["samples"];
  }
  double samples = 0;
  for (const auto& member : after.status["members"]) {
    if (IsHonest(member)) samples += member["samples"].get<double>() - had[member["name"]];
  }
  // Where the run has gone back to a checkpoint, what its workers did is lost.
  const double counted = after.status["figures"]["samples"].get<double>() -
                         before.status["figures"]["samples"].get<double>();
  const auto ms = static_cast<double>(std::max<int64_t>(1, after.at_ms - before.at_ms));
  return 1000 * std::max(0.0, std::min(samples, counted)) / ms;
}

std::vector<std::string> Ground::Dead() const {
  std::vector<std::string> dead;
  for (const auto& [name, pid] : members_) {
    if (IsGone(pid)) dead.push_back(name);
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i]->Running()) dead.push_back(fmt::format("worker-{}", i + 1));
  }
  return dead;
}

std::map<std::string, uint64_t> Ground::Memory() const {
  std::map<std::string, uint64_t> memory;
  for (const auto& [name, pid] : members_) {
    if (name.starts_with("worker")) continue;
    const uint64_t bytes = ResidentBytes(pid);
    if (bytes > 0) memory[name] = bytes;
  }
  return memory;
}

double Ground::SchedulerCpuSeconds() const {
  const auto times = TimesOf(members_.at("scheduler"));
  return times ? times->cpu_s : 0;
}

uint64_t Ground::LogBytes() const {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_.run_directory() + "/logs", error)) {
    bytes += entry.file_size(error);
  }
  return bytes;
}

std::unique_ptr<Process> Ground::Strike(const std::vector<std::string>& arguments,
                                        const Reading& reading) {
  const std::string file = run_.Path(fmt::format("strike-{}.json", ++strikes_));
  std::ofstream(file) << reading.status.dump(-1, ' ', false,
                                             nlohmann::json::error_handler_t::replace);
  Arguments all = arguments;
  all.insert(all.end(),
             {"--run-dir", run_.run_directory(), "--status", file, "--status-port",
              std::to_string(run_.status_port()), "--serve-port", std::to_string(serve_port_)});
  return run_.Start("tests_attacks", all);
}

std::string Ground::AskToStop() {
  if (!train_->Running()) {
    return fmt::format("the run ended by itself with exit code {}", *train_->Wait(0));
  }
  train_->Signal(SIGTERM);
  const std::optional<int> code = train_->Wait(kStopMs);
  if (!code) {
    train_.reset();
    KillMembers();
    return fmt::format("SIGTERM: the run still goes on after {} s", kStopMs / 1000);
  }
  const int expected = options_.training == Training::kStream ? 0 : 85;
  if (*code != expected) {
    return fmt::format("SIGTERM: the run ended with {} instead of {}", *code, expected);
  }
  return "";
}

std::string Ground::Continue(uint64_t epochs) {
  const auto process = run_.Start("dslide", {"train", "--resume", "--run-dir", run_.run_directory(),
                                             "--workers", std::to_string(options_.workers), "--set",
                                             fmt::format("train.epochs={}", epochs)});
  const std::optional<int> code = process->Wait(kFinishMs);
  if (code == 0) return "";
  const std::string errors = process->Errors();
  return fmt::format("the resumed run {}: {}",
                     code ? fmt::format("ended with {}", *code) : "does not end",
                     errors.substr(0, errors.find('\n')));
}

std::string Ground::Recount() {
  if (run_.Run("dslide", {"ledger", "verify", run_.run_directory(), "--json"}) != 0) {
    return "dslide ledger verify: " + run_.last_errors();
  }
  const auto counts = nlohmann::json::parse(run_.last_output(), nullptr, false);
  if (counts.is_discarded() || counts["duplicated"] != 0 || counts["missing"] != 0) {
    return "dslide ledger verify: " + run_.last_output().substr(0, 200);
  }
  if (run_.Run("dslide", {"checkpoint", "verify", run_.run_directory()}) != 0) {
    return "dslide checkpoint verify: " + run_.last_errors();
  }
  return "";
}

Ending Ground::End() {
  Ending ending;
  const auto note = [&](const std::string& fault) {
    if (!fault.empty()) ending.fault += (ending.fault.empty() ? "" : "; ") + fault;
  };
  note(AskToStop());
  attackers_.clear();
  serve_.reset();
  if (run_.Run("dslide", {"evaluate", "--checkpoint", run_.run_directory(), "--data",
                          Samples("measured"), "--json"}) == 0) {
    const auto measured = nlohmann::json::parse(run_.last_output(), nullptr, false);
    if (measured.is_object()) ending.p_at_1 = 100 * measured.value("p_at_1", 0.0);
  } else {
    note("dslide evaluate: " + run_.last_errors());
  }
  if (run_.Run("dslide", {"ledger", "verify", run_.run_directory(), "--json"}) == 0) {
    const auto counts = nlohmann::json::parse(run_.last_output(), nullptr, false);
    if (options_.training != Training::kStream) {
      note(Continue(counts.value("epochs_done", uint64_t{0}) + 2));
    }
    note(Recount());
  } else {
    note("dslide ledger verify: " + run_.last_errors());
  }
  return ending;
}

std::string Ground::LastLines() const {
  std::string text;
  for (const char* name : {"scheduler", "server-1", "server-2"}) {
    const std::string log = ReadFile(fmt::format("{}/logs/{}.log", run_.run_directory(), name));
    text += fmt::format("--- {}\n{}\n", name,
                        log.substr(log.size() - std::min<size_t>(log.size(), 1200)));
  }
  return text;
}

void Ground::KeepLogs(const std::string& directory) const {
  std::error_code error;
  fs::create_directories(directory, error);
  fs::copy(run_.run_directory() + "/logs", directory,
           fs::copy_options::overwrite_existing | fs::copy_options::recursive, error);
}

}  // namespace dslide
