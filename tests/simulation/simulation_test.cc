// Thousands of runs of a whole cluster with faults, each a function of its seed.
//
//   DSLIDE_SIM_SEED=N      replays seed N and tells every event; with -tc, of one test case
//   DSLIDE_SIM_SEEDS=A-B   runs the seeds [A, B)
//   DSLIDE_SIM_LINES=FILE  writes a line a seed: seed, digest of the weights, duration in us,
//   events,
//                          messages. tests/simulation/seed-lines compares the lines of two builds.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tests/simulation/sim_cluster.h"

namespace dslide::sim {
namespace {

constexpr uint64_t kSeedsByDefault = 100, kAbsencesByDefault = 20;
constexpr uint64_t kShortAbsences = 1000;  // the seeds below are of runs of hours
constexpr int64_t kDay = 86400 * kSecond;

const SimSetup& SetupOf(uint64_t seed) {
  static std::map<uint64_t, SimSetup> setups;
  const uint64_t variant = seed % kVariants;
  auto found = setups.find(variant);
  if (found == setups.end()) found = setups.emplace(variant, DrawSetup(variant)).first;
  return found->second;
}

// Whether a run's weights may depend on who owned which slot.
bool OwnersMatter(const SimSetup& setup, const SimOutcome& outcome) {
  return setup.config.model.active == ActiveSet::kLsh && !outcome.first_layout;
}

// The weights of an undisturbed run; none if they depend on slots that moved in it, to a spare.
std::optional<uint64_t> UndisturbedDigest(const SimSetup& setup) {
  static std::map<uint64_t, std::optional<uint64_t>> digests;
  auto found = digests.find(setup.variant);
  if (found == digests.end()) {
    const SimOutcome outcome = SimCluster(setup, FaultPlan(), setup.variant).Run();
    REQUIRE(outcome.violations.empty());
    const auto digest = OwnersMatter(setup, outcome) ? std::nullopt : std::optional(outcome.digest);
    found = digests.emplace(setup.variant, digest).first;
  }
  return found->second;
}

// In synchronous training without staleness every batch of a step is computed from the weights
// after all steps before it, whoever computes it, however often, and wherever from they were
// restored. Owners of slots matter only to hash tables.
bool MustBeExact(const SimSetup& setup, const SimOutcome& outcome) {
  return setup.config.train.staleness == 0 && !OwnersMatter(setup, outcome) &&
         outcome.violations.empty() && UndisturbedDigest(setup);
}

using FaultsOf = FaultPlan (*)(const SimSetup& setup, uint64_t seed);

// Some are longer than 32 bits of milliseconds, and take minutes.
FaultPlan Absences(const SimSetup& setup, uint64_t seed) {
  return DrawAbsences(setup, seed, seed < kShortAbsences ? kDay / 24 : 60 * kDay);
}

SimOutcome RunSeed(uint64_t seed, FaultsOf faults_of, std::FILE* trace_out) {
  const SimSetup& setup = SetupOf(seed);
  SimOutcome outcome = SimCluster(setup, faults_of(setup, seed), seed, trace_out).Run();
  if (MustBeExact(setup, outcome) && outcome.digest != *UndisturbedDigest(setup)) {
    outcome.violations.push_back("the weights are not those of an undisturbed run");
  }
  return outcome;
}

std::string Violations(uint64_t seed, const SimOutcome& outcome) {
  std::string text = fmt::format("seed {}\n", seed);
  for (const std::string& line : outcome.violations) text += "  " + line + "\n";
  return text;
}

// The seeds [first, second) of a variable of the environment; by default [0, `count`).
std::pair<uint64_t, uint64_t> SeedsOf(const char* variable, uint64_t count) {
  const char* range = std::getenv(variable);
  if (range == nullptr) return {0, count};
  char* rest = nullptr;
  const uint64_t begin = std::strtoull(range, &rest, 10);
  return {begin, *rest == '-' ? std::strtoull(rest + 1, nullptr, 10) : begin + 1};
}

void RunSeeds(std::pair<uint64_t, uint64_t> seeds, FaultsOf faults_of) {
  const auto [begin, end] = seeds;
  std::vector<uint64_t> faults(kFaultKinds);
  uint64_t failed = 0, events = 0, plans = 0, restores = 0, moves = 0, checkpoints = 0, exact = 0;
  int64_t virtual_us = 0;
  const char* lines_path = std::getenv("DSLIDE_SIM_LINES");
  std::ofstream lines(lines_path == nullptr ? "/dev/null" : lines_path);
  REQUIRE(lines.is_open());
  for (uint64_t seed = begin; seed < end; ++seed) {
    const SimOutcome outcome = RunSeed(seed, faults_of, nullptr);
    for (size_t i = 0; i < faults.size(); ++i) faults[i] += outcome.faults[i];
    lines << fmt::format("{} {:016x} {} {} {}\n", seed, outcome.digest, outcome.duration_us,
                         outcome.events, outcome.messages);
    events += outcome.events;
    plans += outcome.plans;
    restores += outcome.restores;
    moves += outcome.moves;
    checkpoints += outcome.checkpoints;
    exact += MustBeExact(SetupOf(seed), outcome);
    virtual_us += outcome.duration_us;
    if (outcome.violations.empty()) continue;
    failed++;
    fmt::print("{}", Violations(seed, outcome));
    std::fflush(stdout);
  }
  fmt::print(
      "{} seeds, {} failed; {} events, {} s of virtual time; {} plans, {} of them from a "
      "checkpoint, {} that moved slots, {} checkpoints; {} runs compared with an undisturbed one\n",
      end - begin, failed, events, virtual_us / kSecond, plans, restores, moves, checkpoints,
      exact);
  fmt::print(
      "faults: {} crashes, {} gone, {} pauses, {} stops, {} clock jumps, {} breaks, {} "
      "partitions, {} disk failures, {} weathers, {} absences\n",
      faults[0], faults[1], faults[2], faults[3], faults[4], faults[5], faults[6], faults[7],
      faults[8], faults[9]);
  CHECK(failed == 0);
}

// Whether a seed was to be replayed, and was.
bool Replayed(FaultsOf faults_of) {
  const char* replayed = std::getenv("DSLIDE_SIM_SEED");
  if (replayed == nullptr) return false;
  const uint64_t seed = std::strtoull(replayed, nullptr, 10);
  const SimOutcome outcome = RunSeed(seed, faults_of, stdout);
  INFO(Violations(seed, outcome));
  CHECK(outcome.violations.empty());
  return true;
}

TEST_CASE("nothing is lost and nothing counts twice") {
  if (Replayed(DrawFaults)) return;
  RunSeeds(SeedsOf("DSLIDE_SIM_SEEDS", kSeedsByDefault), DrawFaults);
}

TEST_CASE("workers are away for minutes to months, and nothing is lost") {
  if (Replayed(Absences)) return;
  RunSeeds(SeedsOf("DSLIDE_SIM_SEEDS", kAbsencesByDefault), Absences);
}

TEST_CASE("a seed is one run") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const SimOutcome first = RunSeed(seed, DrawFaults, nullptr);
    const SimOutcome again = RunSeed(seed, DrawFaults, nullptr);
    CAPTURE(seed);
    CHECK(first.digest == again.digest);
    CHECK(first.duration_us == again.duration_us);
    CHECK(first.events == again.events);
    CHECK(first.messages == again.messages);
  }
}

}  // namespace
}  // namespace dslide::sim
