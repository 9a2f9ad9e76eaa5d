// Attacks on live clusters under training: does any process die or hang, how does memory grow, what
// becomes of the honest workers' speed, of the model and of the ledger?
//
//   tests_attacks                                      all attacks, encrypted
//   tests_attacks --list                               what there is
//   tests_attacks --family flood --only http.slowloris some of them
//   tests_attacks --plain, --sync, --stream            another kind of cluster
//
// The attacker is a process of its own: this executable again.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "common/app/executable.h"
#include "tests/attacks/attack.h"
#include "tests/attacks/campaign.h"
#include "tests/attacks/strike.h"

namespace dslide {
namespace {

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
  const Result<uint32_t> jobs = arguments.Number("jobs", 1, 16);
  DSLIDE_RETURN_IF_ERROR(jobs);
  CampaignOptions options;
  options.plain = arguments.Has("plain");
  if (arguments.Has("sync") && arguments.Has("stream")) {
    return BadInput("--sync --stream: a stream is not trained synchronously here; name one");
  }
  if (arguments.Has("sync")) options.training = Training::kSynchronous;
  if (arguments.Has("stream")) options.training = Training::kStream;
  options.alone = arguments.Has("alone");
  options.together = arguments.Has("quick");
  options.keep = arguments.Get("keep");
  options.run_ms = *run_ms;
  options.jobs = *jobs;
  // What ctest runs is no timed test.
  options.limits.judge_speed = !arguments.Has("quick");
  return RunCampaign(*attacks, options);
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
  line.Flag("sync", "synchronous training with audits");
  line.Flag("stream", "training on a stream");
  line.Flag("alone", "every attack on a cluster of its own");
  line.Flag("quick", "those that ctest runs; speed is shown but not judged");
  line.Option("milliseconds", "N", "how long an attack goes on", "3000");
  line.Option("jobs", "N", "clusters at once", "2");
  line.Option("keep", "DIRECTORY", "where the logs of all clusters go; default: they are removed");
  // For the processes that this one starts.
  line.Option("strike", "NAME", "be the attacker");
  line.Option("burn", "PERCENT", "burn so much of a core");
  line.Option("run-dir", "DIRECTORY", "the run that is attacked");
  line.Option("status", "FILE", "its status");
  line.Option("status-port", "PORT", "of its status page", "0");
  line.Option("serve-port", "PORT", "of its dslide serve", "0");
  return dslide::RunExecutable("tests_attacks", line, argc, argv, dslide::Work);
}
