// Attacks on live clusters under training: does any process die or hang, how does memory grow, what
// becomes of the honest workers' speed, of the model and of the ledger?
//
//   tests_attacks                                      all attacks, encrypted
//   tests_attacks --list                               what there is
//   tests_attacks --family flood --only http.slowloris some of them
//   tests_attacks --plain, --sync                      another kind of cluster
//
// Attacks of a family share a cluster, but for those that may change the model. When one breaks the
// cluster, the next ones get a new one. The attacker is a process of its own: this executable
// again.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "common/app/executable.h"
#include "common/base/process.h"
#include "tests/attacks/attack.h"
#include "tests/attacks/strike.h"
#include "tests/attacks/trial.h"

namespace dslide {
namespace {

// Attacks on one cluster.
struct Group {
  std::string name;
  GroundOptions options;
  std::vector<const Attack*> attacks;
};

struct Choice {
  bool plain = false, synchronous = false, alone = false;
  int64_t run_ms = 0;
  Limits limits;
  std::string keep;
};

class Campaign {
 public:
  explicit Campaign(Choice choice) : choice_(std::move(choice)) {}

  Status Run(const std::vector<const Attack*>& attacks) {
    PrintHead();
    for (const Group& group : GroupsOf(attacks)) {
      DSLIDE_RETURN_IF_ERROR(RunGroup(group));
    }
    fmt::print("{} passed, {} failed\n", passed_, failed_);
    if (failed_ == 0) return {};
    return Failed(fmt::format("failed: {}", fmt::join(failures_, " ")));
  }

 private:
  std::vector<Group> GroupsOf(const std::vector<const Attack*>& attacks) const {
    std::vector<Group> groups;
    for (const Attack* attack : attacks) {
      const GroundOptions options = GroundOf(*attack, choice_.plain, choice_.synchronous);
      const bool alone = attack->on.alone || choice_.alone;
      const std::string name = alone ? attack->name : FamilyOf(*attack);
      const auto same = std::ranges::find_if(groups, [&](const Group& group) {
        return group.name == name && group.options == options;
      });
      Group& group = same == groups.end() ? groups.emplace_back(Group{name, options, {}}) : *same;
      group.attacks.push_back(attack);
    }
    return groups;
  }

  // The P@1 of a run of the same kind that nobody attacks, stopped after as long.
  Result<double> Clean(const GroundOptions& options) {
    const auto [found, is_new] = clean_.try_emplace(options, 0.0);
    if (!is_new) return found->second;
    Ground ground(options);
    DSLIDE_RETURN_IF_ERROR(ground.Begin({}));
    const Ending ending = ground.End();
    if (!ending.fault.empty()) return Failed("without an attack: " + ending.fault);
    found->second = ending.p_at_1;
    fmt::print(
        "clean: {}, {}, {} workers: P@1 {:.2f}\n", options.encrypted ? "encrypted" : "plaintext",
        options.synchronous ? "synchronous" : "asynchronous", options.workers, ending.p_at_1);
    return ending.p_at_1;
  }

  Status RunGroup(const Group& group) {
    const Result<double> clean = Clean(group.options);
    DSLIDE_RETURN_IF_ERROR(clean);
    for (size_t next = 0; next < group.attacks.size();) {
      Ground ground(group.options);
      DSLIDE_RETURN_IF_ERROR(ground.Begin(group.attacks));
      const size_t first = next;
      std::vector<Outcome> outcomes;
      while (next < group.attacks.size()) {
        outcomes.push_back(Try(*group.attacks[next++], &ground, choice_.run_ms, choice_.limits));
        const bool shared = next < group.attacks.size();
        if (shared) PrintLine(*group.attacks[next - 1], outcomes.back(), "");
        // A cluster that is broken says nothing about the next attack.
        if (!outcomes.back().dead.empty()) break;
      }
      const Ending ending = ground.End();
      EndGroup(group, first, next, ending, *clean, &outcomes);
      if (!choice_.keep.empty()) ground.KeepLogs(choice_.keep + "/" + group.attacks[first]->name);
    }
    return {};
  }

  // What becomes of the run is counted against the attack that was alone, or against all of them
  // together, in a line of its own.
  void EndGroup(const Group& group, size_t first, size_t end, const Ending& ending, double clean,
                std::vector<Outcome>* outcomes) {
    std::vector<std::string> faults;
    if (!ending.fault.empty()) faults.push_back(ending.fault);
    if (ending.p_at_1 >= 0 && ending.p_at_1 < clean - choice_.limits.points) {
      faults.push_back(fmt::format("P@1 {:.2f}, clean {:.2f}", ending.p_at_1, clean));
    }
    const std::string p_at_1 = fmt::format("{:.1f}", ending.p_at_1);
    const bool one = end - first == 1;
    Outcome& last = outcomes->back();
    if (one) last.faults.insert(last.faults.end(), faults.begin(), faults.end());
    const bool printed = end < group.attacks.size();
    if (!printed || one) PrintLine(*group.attacks[end - 1], last, one ? p_at_1 : "", printed);
    for (size_t i = first; i < end; ++i)
      Count(group.attacks[i]->name, (*outcomes)[i - first].good());
    if (one) return;
    fmt::print("{:<7} {:<30} {:<9} P@1 {}{}\n", faults.empty() ? "ok" : "FAILED",
               group.name + ", the run's end", "", p_at_1,
               faults.empty() ? "" : fmt::format(": {}", fmt::join(faults, "; ")));
    Count(group.name + ".end", faults.empty());
  }

  void Count(const std::string& name, bool good) {
    (good ? passed_ : failed_)++;
    if (!good) failures_.push_back(name);
  }

  void PrintHead() const {
    fmt::print("{:<7} {:<30} {:<9} {:<6} {:>9} {:>7} {:>7} {:>5} {:>6} {}\n", "", "attack", "as",
               "lives", "memory MB", "goodput", "log KB", "CPU", "P@1", "what");
  }

  void PrintLine(const Attack& attack, const Outcome& outcome, const std::string& p_at_1,
                 bool again = false) const {
    std::vector<std::string> remarks = outcome.faults;
    for (const std::string& line : outcome.said) remarks.push_back("(" + line + ")");
    fmt::print("{:<7} {:<30} {:<9} {:<6} {:>+9.0f} {:>7.2f} {:>7.0f} {:>5.2f} {:>6} {}{}\n",
               outcome.good() ? "ok" : "FAILED", attack.name, NameOf(attack.as),
               outcome.dead.empty() ? "all" : "DEAD", outcome.memory_mb, outcome.goodput,
               outcome.log_kb, outcome.cpu_share, p_at_1, again ? "(again) " : "",
               fmt::join(remarks, "; "));
    std::fflush(stdout);
  }

  Choice choice_;
  std::map<GroundOptions, double> clean_;
  size_t passed_ = 0, failed_ = 0;
  std::vector<std::string> failures_;
};

// By names and families, all if there are none.
Result<std::vector<const Attack*>> Choose(const std::vector<Attack>& all,
                                          const ParsedArguments& arguments) {
  const std::vector<std::string> only = arguments.All("only"), families = arguments.All("family");
  std::vector<const Attack*> chosen;
  for (const Attack& attack : all) {
    const auto begins = [&](const std::string& name) {
      return std::string(attack.name).starts_with(name);
    };
    const bool named = std::ranges::any_of(only, begins);
    const bool of_family = std::ranges::count(families, FamilyOf(attack)) > 0;
    const bool any = only.empty() && families.empty();
    if (arguments.Has("quick") ? attack.on.quick : any || named || of_family) {
      chosen.push_back(&attack);
    }
  }
  if (chosen.empty()) return BadInput("no attack has such a name; --list names them");
  return chosen;
}

// Uses as much of a core as an attack did, under the same priority.
Status Burn(const ParsedArguments& arguments) {
  const Result<uint32_t> share = arguments.Number("burn", 1, 100);
  DSLIDE_RETURN_IF_ERROR(share);
  const Result<uint32_t> run_ms = arguments.Number("milliseconds", 1, 600'000);
  DSLIDE_RETURN_IF_ERROR(run_ms);
  BurnCpu(*share / 100.0, *run_ms);
  return {};
}

void List(const std::vector<const Attack*>& attacks) {
  for (const Attack* attack : attacks) {
    fmt::print("{:<32} {:<10} {}\n", attack->name, NameOf(attack->as), attack->what);
  }
  fmt::print("{} attacks\n", attacks.size());
}

Status Work(const ParsedArguments& arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (arguments.Has("strike")) return RunStrike(arguments);
  if (arguments.Has("burn")) return Burn(arguments);
  const std::vector<Attack> all = AllAttacks();
  const Result<std::vector<const Attack*>> attacks = Choose(all, arguments);
  DSLIDE_RETURN_IF_ERROR(attacks);
  if (arguments.Has("list")) {
    List(*attacks);
    return {};
  }
  const Result<uint32_t> run_ms = arguments.Number("milliseconds", 1, 600'000);
  DSLIDE_RETURN_IF_ERROR(run_ms);
  Choice choice;
  choice.plain = arguments.Has("plain");
  choice.synchronous = arguments.Has("sync");
  choice.alone = arguments.Has("alone");
  choice.keep = arguments.Get("keep");
  choice.run_ms = *run_ms;
  // What ctest runs is no timed test.
  choice.limits.judge_goodput = !arguments.Has("quick");
  return Campaign(std::move(choice)).Run(*attacks);
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::CommandLine line("tests_attacks [options]",
                           "Attacks clusters under training, and measures what comes of it.");
  line.Repeated("only", "NAME", "an attack, or the beginning of several");
  line.Repeated("family", "NAME", "all attacks of a family");
  line.Flag("list", "name the attacks and exit");
  line.Flag("plain", "clusters without encryption, where nobody has a key");
  line.Flag("sync", "synchronous training");
  line.Flag("alone", "every attack on a cluster of its own");
  line.Flag("quick", "those that ctest runs; goodput is shown but not judged");
  line.Option("milliseconds", "N", "how long an attack goes on", "3000");
  line.Option("keep", "DIRECTORY", "where the logs of all clusters go; default: they are removed");
  // For the processes that this one starts.
  line.Option("strike", "NAME", "be the attacker");
  line.Option("burn", "PERCENT", "burn so much of a core");
  line.Option("run-dir", "DIRECTORY", "the run that is attacked");
  line.Option("status", "FILE", "its status");
  line.Option("status-port", "PORT", "of its status page", "0");
  return dslide::RunExecutable("tests_attacks", line, argc, argv, dslide::Work);
}
