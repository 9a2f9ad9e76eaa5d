#include "tests/attacks/campaign.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>

#include "common/base/process.h"
#include "tests/support/temp_directory.h"

namespace dslide {
namespace {

// Attacks on clusters of one kind, one after another; none: a clean run.
struct Group {
  std::string name;
  GroundOptions options;
  std::vector<const Attack*> attacks;
};

std::vector<Group> GroupsOf(const std::vector<const Attack*>& attacks,
                            const CampaignOptions& campaign) {
  std::vector<Group> groups;
  for (const Attack* attack : attacks) {
    const GroundOptions options = GroundOf(*attack, campaign.plain, campaign.training);
    const bool alone = attack->on.alone || attack->on.first || campaign.alone;
    const std::string name = alone ? attack->name : campaign.together ? "all" : FamilyOf(*attack);
    const auto same = std::ranges::find_if(
        groups, [&](const Group& group) { return group.name == name && group.options == options; });
    Group& group = same == groups.end() ? groups.emplace_back(Group{name, options, {}}) : *same;
    group.attacks.push_back(attack);
  }
  return groups;
}

void PrintHead() {
  fmt::print("{:<7} {:<30} {:<9} {:<5} {:>6} {:>7} {:>6} {:>6} {:>4} {:>5} {:>6}  {}\n", "",
             "attack", "as", "lives", "MB", "goodput", "after", "log KB", "CPU", "sched", "P@1",
             "what");
}

void PrintLine(const Attack& attack, const Outcome& outcome, const std::string& p_at_1) {
  std::vector<std::string> remarks = outcome.faults;
  for (const std::string& line : outcome.said) remarks.push_back("(" + line + ")");
  fmt::print(
      "{:<7} {:<30} {:<9} {:<5} {:>+6.0f} {:>7.2f} {:>6.2f} {:>6.0f} {:>4.2f} {:>5.2f} {:>6}  {}\n",
      outcome.good() ? "ok" : "FAILED", attack.name, NameOf(attack.as),
      outcome.dead.empty() ? "all" : "DEAD", outcome.memory_mb, outcome.goodput,
      outcome.goodput_after, outcome.log_kb, outcome.cpu_share, outcome.scheduler_share, p_at_1,
      fmt::join(remarks, "; "));
}

// What the process of a group tells the one that has forked it, in lines of its output.
constexpr std::string_view kVerdict = "verdict ";
constexpr std::string_view kClean = "clean ";

// Figures of a run that nobody attacks.
struct Clean {
  double p_at_1 = 0;
  double rate = 1;  // samples a second
};

// The options of a cluster whose workers are there from the beginning.
GroundOptions WithoutWait(GroundOptions options) {
  options.waits = false;
  return options;
}

void Verdict(const std::string& name, bool good) {
  fmt::print("{}{} {}\n", kVerdict, good ? "ok" : "FAILED", name);
}

// All that is done on the clusters of one group; in a process of its own.
class GroupRun {
 public:
  GroupRun(const Group& group, const CampaignOptions& campaign, const Clean& clean)
      : group_(group), campaign_(campaign), clean_(clean) {}

  Status Run() {
    if (group_.attacks.empty()) return RunClean();
    while (next_ < group_.attacks.size()) {
      Ground ground(group_.options);
      DSLIDE_RETURN_IF_ERROR(ground.Begin(group_.attacks));
      Strike(&ground);
    }
    return {};
  }

 private:
  Status RunClean() const {
    Ground ground(group_.options);
    DSLIDE_RETURN_IF_ERROR(ground.Begin({}));
    const double rate = CalmRate(&ground);
    const Ending ending = ground.End();
    if (!ending.fault.empty()) return Failed("without an attack: " + ending.fault);
    fmt::print("clean: {}, {}, {} workers: P@1 {:.2f}, {:.0f} samples/s\n",
               group_.options.encrypted ? "encrypted" : "plaintext",
               NameOf(group_.options.training), group_.options.workers, ending.p_at_1, rate);
    fmt::print("{}{} {}\n", kClean, ending.p_at_1, rate);
    return {};
  }

  // As many attacks as the ground stands.
  void Strike(Ground* ground) {
    const size_t first = next_;
    const bool waits = group_.options.waits;
    double rate = waits ? clean_.rate : CalmRate(ground);
    std::vector<Outcome> outcomes;
    do {
      outcomes.push_back((waits ? TryFirst : Try)(*group_.attacks[next_++], ground,
                                                  campaign_.run_ms, rate, campaign_.limits));
      rate = std::max(1.0, outcomes.back().rate_after);
    } while (outcomes.back().dead.empty() && outcomes.back().fit && next_ < group_.attacks.size());
    const Ending ending = ground->End();
    std::vector<std::string> faults;
    if (!ending.fault.empty()) faults.push_back(ending.fault);
    if (ending.p_at_1 < clean_.p_at_1 - campaign_.limits.points) {
      faults.push_back(fmt::format("P@1 {:.2f}, clean {:.2f}", ending.p_at_1, clean_.p_at_1));
    }
    const double told = outcomes.back().told_p_at_1;
    if (told >= 0 && told < ending.p_at_1 - campaign_.limits.told_points) {
      faults.push_back(fmt::format("the run says P@1 {:.1f}", told));
    }
    Print(first, &outcomes, ending, faults);
    if (!campaign_.keep.empty()) {
      ground->KeepLogs(campaign_.keep + "/" + group_.attacks[first]->name);
    }
  }

  // What becomes of the run is counted against an attack that was alone, else against all of them
  // together, in a line of its own.
  void Print(size_t first, std::vector<Outcome>* outcomes, const Ending& ending,
             const std::vector<std::string>& faults) const {
    const std::string p_at_1 = fmt::format("{:.1f}", ending.p_at_1);
    const bool one = outcomes->size() == 1;
    for (size_t i = 0; i < outcomes->size(); ++i) {
      Outcome& outcome = (*outcomes)[i];
      const Attack& attack = *group_.attacks[first + i];
      if (one) outcome.faults.insert(outcome.faults.end(), faults.begin(), faults.end());
      PrintLine(attack, outcome, one ? p_at_1 : "");
      Verdict(attack.name, outcome.good());
    }
    if (one) return;
    const std::string name = group_.name + ".end";
    fmt::print("{:<7} {:<30} {:>52}  {}\n", faults.empty() ? "ok" : "FAILED", name, p_at_1,
               fmt::join(faults, "; "));
    Verdict(name, faults.empty());
  }

  const Group& group_;
  const CampaignOptions& campaign_;
  Clean clean_;
  size_t next_ = 0;
};

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options) : options_(options) {}

  Status Run(const std::vector<Group>& groups) {
    for (const Group& group : groups) clean_.try_emplace(WithoutWait(group.options));
    std::vector<Group> clean;
    for (const auto& [options, run] : clean_) clean.push_back({"clean", options, {}});
    RunAll(clean);
    if (!failures_.empty()) return Failed("a clean run fails");
    PrintHead();
    RunAll(groups);
    fmt::print("{} passed, {} failed\n", passed_, failures_.size());
    if (failures_.empty()) return {};
    return Failed(fmt::format("failed: {}", fmt::join(failures_, " ")));
  }

 private:
  void RunAll(const std::vector<Group>& groups) {
    for (const Group& group : groups) {
      while (running_.size() >= options_.jobs) Collect();
      Fork(group);
    }
    while (!running_.empty()) Collect();
  }

  void Fork(const Group& group) {
    const std::string output = fmt::format("{}/{}", directory_.path(), ++outputs_);
    std::fflush(stdout);
    const pid_t pid = fork();
    DSLIDE_CHECK(pid >= 0);
    if (pid == 0) {
      DieWithParent();
      DSLIDE_CHECK(std::freopen(output.c_str(), "w", stdout) != nullptr);
      const Status status = GroupRun(group, options_, clean_.at(WithoutWait(group.options))).Run();
      if (!status.ok()) fmt::print("{}: {}\n", group.name, status.error().message);
      std::fflush(stdout);
      _exit(status.ok() ? 0 : 1);
    }
    running_[pid] = {&group, output};
  }

  // Waits for the end of a group and shows what it says.
  void Collect() {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    const auto found = running_.find(pid);
    DSLIDE_CHECK(found != running_.end());
    const auto [group, output] = found->second;
    running_.erase(found);
    std::istringstream lines(ReadFile(output));
    for (std::string line; std::getline(lines, line);) Take(*group, line);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failures_.push_back(group->name);
    std::fflush(stdout);
  }

  void Take(const Group& group, const std::string& line) {
    if (line.starts_with(kClean)) {
      std::istringstream figures(line.substr(kClean.size()));
      figures >> clean_[group.options].p_at_1 >> clean_[group.options].rate;
    } else if (line.starts_with(kVerdict)) {
      const std::string verdict = line.substr(kVerdict.size());
      if (verdict.starts_with("ok ")) {
        passed_++;
      } else {
        failures_.push_back(verdict.substr(verdict.find(' ') + 1));
      }
    } else {
      fmt::print("{}\n", line);
    }
  }

  const CampaignOptions& options_;
  TempDirectory directory_;
  int outputs_ = 0;
  std::map<GroundOptions, Clean> clean_;
  std::map<pid_t, std::pair<const Group*, std::string>> running_;
  size_t passed_ = 0;
  std::vector<std::string> failures_;
};

}  // namespace

Status RunCampaign(const std::vector<const Attack*>& attacks, const CampaignOptions& options) {
  return Campaign(options).Run(GroupsOf(attacks, options));
}

}  // namespace dslide
