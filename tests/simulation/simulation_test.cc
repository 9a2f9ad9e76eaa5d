// Thousands of runs of a whole cluster with faults, each a function of its seed.
//
//   DSLIDE_SIM_SEED=N      replays seed N and tells every event
//   DSLIDE_SIM_SEEDS=A-B   runs the seeds [A, B)
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <map>
#include <string>

#include "tests/simulation/sim_cluster.h"

namespace dslide::sim {
namespace {

constexpr uint64_t kVariants = 64;
constexpr uint64_t kSeedsByDefault = 100;

const SimSetup& SetupOf(uint64_t seed) {
  static std::map<uint64_t, SimSetup> setups;
  const uint64_t variant = seed % kVariants;
  auto found = setups.find(variant);
  if (found == setups.end()) found = setups.emplace(variant, DrawSetup(variant)).first;
  return found->second;
}

SimOutcome RunSeed(uint64_t seed, std::FILE* trace_out) {
  const SimSetup& setup = SetupOf(seed);
  SimCluster cluster(setup, DrawFaults(setup, seed), seed, trace_out);
  return cluster.Run();
}

std::string Violations(uint64_t seed, const SimOutcome& outcome) {
  std::string text = fmt::format("seed {}\n", seed);
  for (const std::string& line : outcome.violations) text += "  " + line + "\n";
  return text;
}

TEST_CASE("nothing is lost and nothing counts twice") {
  if (const char* replayed = std::getenv("DSLIDE_SIM_SEED")) {
    const uint64_t seed = std::strtoull(replayed, nullptr, 10);
    const SimOutcome outcome = RunSeed(seed, stdout);
    INFO(Violations(seed, outcome));
    CHECK(outcome.violations.empty());
    return;
  }
  uint64_t begin = 0, end = kSeedsByDefault;
  if (const char* range = std::getenv("DSLIDE_SIM_SEEDS")) {
    char* rest = nullptr;
    begin = std::strtoull(range, &rest, 10);
    end = *rest == '-' ? std::strtoull(rest + 1, nullptr, 10) : begin + 1;
  }
  std::vector<uint64_t> faults(8);
  uint64_t failed = 0, events = 0;
  int64_t virtual_us = 0;
  for (uint64_t seed = begin; seed < end; ++seed) {
    const SimOutcome outcome = RunSeed(seed, nullptr);
    for (size_t i = 0; i < faults.size(); ++i) faults[i] += outcome.faults[i];
    events += outcome.events;
    virtual_us += outcome.duration_us;
    if (outcome.violations.empty()) continue;
    failed++;
    fmt::print("{}", Violations(seed, outcome));
    std::fflush(stdout);
  }
  fmt::print("{} seeds, {} failed; {} events, {} s of virtual time; faults: {} crashes, {} gone, {} "
             "pauses, {} stops, {} clock jumps, {} breaks, {} partitions, {} weathers\n",
             end - begin, failed, events, virtual_us / kSecond, faults[0], faults[1], faults[2],
             faults[3], faults[4], faults[5], faults[6], faults[7]);
  CHECK(failed == 0);
}

}  // namespace
}  // namespace dslide::sim
