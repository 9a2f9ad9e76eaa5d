#include "tests/cluster/kill/kept_cluster.h"

#include <fmt/core.h>
#include <fmt/os.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/base/check.h"
#include "tests/cluster/cluster.h"

namespace dslide {
namespace {

constexpr int kTestSamplesHere = 400;
constexpr int kLeaveMs = 20000;  // time for members to end after the scheduler
constexpr size_t kShownLines = 12;
constexpr int kShownLives = 2;
const std::string kSlow = "worker.before-report=delay:15";

std::string LastLinesOf(const std::string& text) {
  size_t begin = text.size();
  for (size_t lines = 0; begin > 0; --begin) {
    if (text[begin - 1] == '\n' && begin < text.size() && ++lines == kShownLines) break;
  }
  return text.substr(begin);
}

}  // namespace

KeptCluster::KeptCluster(std::string directory, const Options& options)
    : directory_(std::move(directory)), options_(options) {
  WriteSamples(Path("train.txt"), kTrainSamples, 1);
  WriteSamples(Path("test.txt"), kTestSamplesHere, 2);
  WriteConfig();
}

void KeptCluster::WriteConfig() const {
  auto file = fmt::output_file(Path("cluster.ini"));
  file.print("[model]\nhidden = 16\nactive = mass\nnegatives = 60\n");
  file.print("[train]\ndata = {}\ntest = {}\nepochs = {}\n", Path("train.txt"), Path("test.txt"),
             kEpochs);
  file.print(
      "heldout = 0\nbatch = 64\nlearning_rate = 0.08\nwarmup_batches = 20\ndropout_hidden = 0\n");
  file.print("evaluate_samples = 10\n");
  if (options_.synchronous) file.print("staleness = 0\ntarget_batch = 256\n");
  file.print("[cluster]\nservers = {}\nworkers = {}\nexecutors = 1\nstatus_bind =\n", kServers,
             kWorkers);
  file.print("scheduler_bind = tcp://127.0.0.1:*\nslots = 16\n");
  file.print("heartbeat_ms = 100\nlease_timeout_ms = {}\nrequest_timeout_ms = 500\n", kLeaseMs);
  file.print("takeover_s = {}\nscheduler_silence_s = 30\n", options_.takeover ? 1 : 0);
  if (!options_.elastic) file.print("balance = off\ndrain_s = 0\n");
  file.print("[checkpoint]\ninterval_s = 1\n");
}

KeptCluster::Member* KeptCluster::Find(const std::string& name) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const Member& member) { return member.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

int KeptCluster::Lives(const std::string& name) {
  const Member* member = Find(name);
  return member == nullptr ? 0 : member->lives;
}

std::string KeptCluster::LogOf(const std::string& name, int life) const {
  return Path(fmt::format("{}.{}", name, life));
}

std::string KeptCluster::Address() const {
  const std::string text = ReadFile(run_directory() + "/scheduler.address");
  return text.substr(0, text.find('\n'));
}

void KeptCluster::Start(const std::string& name, const std::string& failpoints) {
  DSLIDE_CHECK(Find(name) == nullptr);
  if (name != "scheduler") Await([&] { return !Address().empty(); });
  members_.push_back({name, 0, nullptr, failpoints, false, 0});
  Launch(&members_.back());
}

void KeptCluster::StartRest() {
  std::vector<std::string> names = {"scheduler"};
  for (int i = 1; i <= kServers; ++i) names.push_back(fmt::format("server-{}", i));
  for (int i = 1; i <= kWorkers; ++i) names.push_back(fmt::format("worker-{}", i));
  for (const std::string& name : names) {
    if (Find(name) == nullptr) Start(name);
  }
}

Process& KeptCluster::StartBeside(const std::string& name) {
  Member* member = Find(name);
  beside_.push_back(std::move(member->process));
  Launch(member);
  return *beside_.back();
}

void KeptCluster::SetNext(const std::string& name, const std::string& failpoints) {
  Find(name)->next = failpoints;
}

void KeptCluster::Launch(Member* member) {
  std::string failpoints = std::exchange(member->next, "");
  member->lives++;
  member->struck = failpoints.find("=term") != std::string::npos;
  member->dismissals = dismissals_;
  if (options_.slow && member->name.starts_with("worker")) {
    failpoints += failpoints.empty() ? kSlow : ";" + kSlow;
  }
  const std::string program = "dslide-" + member->name.substr(0, member->name.find('-'));
  member->process = std::make_unique<Process>(program, ArgumentsOf(*member),
                                              LogOf(member->name, member->lives), failpoints);
}

std::vector<std::string> KeptCluster::ArgumentsOf(const Member& member) const {
  if (member.name == "scheduler") {
    std::vector<std::string> arguments = {"--config", Path("cluster.ini"), "--run-dir",
                                          run_directory()};
    // The run has begun: the scheduler's first life got as far as creating the ledger.
    if (std::filesystem::exists(run_directory() + "/ledger")) arguments.push_back("--resume");
    return arguments;
  }
  std::vector<std::string> arguments = {"--scheduler", Address(), "--name", member.name};
  if (member.name.starts_with("server")) {
    arguments.insert(arguments.end(), {"--config", Path("cluster.ini")});
  }
  return arguments;
}

void KeptCluster::Supervise() {
  for (const std::string& path : open_) unlink(path.c_str());
  for (Member& member : members_) {
    if (finished_ || !failure_.empty()) return;
    if (!member.process->Running()) OnEnd(&member, *member.process->Wait(0));
  }
}

void KeptCluster::OnEnd(Member* member, int code) {
  const bool is_scheduler = member->name == "scheduler";
  if (is_scheduler && code == 0) {
    finished_ = true;
    return;
  }
  const bool on_purpose = code == 75 || code == 85 || (code == 0 && !is_scheduler);
  if (code >= 0 && !on_purpose && !member->struck) {
    failure_ = fmt::format("{} (life {}) ended with {}", member->name, member->lives, code);
    return;
  }
  if (is_scheduler && code >= 0) dismissals_++;
  // The scheduler dismissed this member and is about to end. If the scheduler comes back, so does
  // the member.
  if (code == 0 && !member->struck && member->dismissals == dismissals_) return;
  Launch(member);
}

void KeptCluster::Strike(const std::string& name, int signal) {
  Member* member = Find(name);
  if (signal == SIGTERM) member->struck = true;
  member->process->Signal(signal);
}

// Not marked as struck: after an end with 0 the member stays away, after any other end it is
// replaced.
void KeptCluster::Retire(const std::string& name) { Find(name)->process->Signal(SIGTERM); }

bool KeptCluster::Await(const std::function<bool()>& condition, int deadline_ms) {
  bool holds = false;
  const bool in_time = WaitFor(
      [&] {
        holds = condition();
        if (!holds) {
          Supervise();
          holds = condition();
        }
        return holds || finished_ || !failure_.empty();
      },
      deadline_ms);
  if (!in_time) failure_ = "nothing more happened";
  return holds;
}

bool KeptCluster::AwaitEnd() {
  if (!Await([&] { return finished_; })) return false;
  KillStrangers();
  std::string running;
  const bool all_ended = WaitFor(
      [&] {
        running.clear();
        for (Member& member : members_) {
          if (member.process->Running()) running += " " + member.name;
        }
        return running.empty();
      },
      kLeaveMs);
  if (!all_ended) failure_ = "after the scheduler's end there still runs" + running;
  return all_ended;
}

// Kills the members that the scheduler could not have dismissed when it ended: those stopped, and
// those not in its roster. This life of the member must have joined, and this life of the scheduler
// must have seen it: a member that joined the scheduler's earlier life may come back too late.
void KeptCluster::KillStrangers() {
  const std::string roster = ReadFile(LogOf("scheduler", Find("scheduler")->lives) + ".err");
  for (Member& member : members_) {
    const std::string log = ReadFile(LogOf(member.name, member.lives) + ".err");
    const bool joined =
        log.find("[scheduler.join]") != std::string::npos &&
        roster.find(fmt::format("[member.join] {} joined", member.name)) != std::string::npos;
    if (member.process->Stopped() || !joined) member.process->Signal(SIGKILL);
  }
}

std::unique_ptr<Process> KeptCluster::Request(const std::vector<std::string>& arguments) {
  return std::make_unique<Process>("dslide", arguments, Path(fmt::format("ask.{}", ++asked_)));
}

std::unique_ptr<Process> KeptCluster::RequestCheckpoint() {
  return Request({"run", "checkpoint", "--scheduler", Address()});
}

std::unique_ptr<Process> KeptCluster::RequestDrain(const std::string& name) {
  return Request({"run", "drain", name, "--scheduler", Address()});
}

bool KeptCluster::HasCheckpoint() const {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(run_directory() + "/checkpoint", error)) {
    if (std::filesystem::exists(entry.path() / "manifest")) return true;
  }
  return false;
}

nlohmann::json KeptCluster::Ask(const std::vector<std::string>& arguments) {
  const auto process = Request(arguments);
  const int code = process->Wait().value_or(-1000);
  if (code != 0) {
    failure_ = fmt::format("dslide {} {} ended with {}: {}", arguments[0], arguments[1], code,
                           process->Errors());
  }
  return nlohmann::json::parse(process->Output(), nullptr, false);
}

std::string KeptCluster::AllErrors(const std::string& name) const {
  std::string all;
  for (int life = 1; std::filesystem::exists(LogOf(name, life) + ".err"); ++life) {
    all += ReadFile(LogOf(name, life) + ".err");
  }
  return all;
}

nlohmann::json KeptCluster::Summary() const {
  return nlohmann::json::parse(ReadFile(run_directory() + "/summary.json"), nullptr, false);
}

std::string KeptCluster::LastLines() const {
  std::string text;
  for (const Member& member : members_) {
    for (int life = std::max(1, member.lives - kShownLives + 1); life <= member.lives; ++life) {
      text += fmt::format("--- {}, life {} of {}\n{}", member.name, life, member.lives,
                          LastLinesOf(ReadFile(LogOf(member.name, life) + ".err")));
    }
  }
  return text;
}

}  // namespace dslide
