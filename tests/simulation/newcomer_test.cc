// Servers that join a run and cannot do their part: training goes on without them.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/simulation/sim_cluster.h"

namespace dslide::sim {
namespace {

constexpr int64_t kLongUs = 400 * kSecond;

// Setups in which a server more than cluster.servers joins, and may get slots.
std::vector<SimSetup> SetupsWithNewcomer(uint32_t least_servers) {
  std::vector<SimSetup> setups;
  for (uint64_t variant = 0; variant < kVariants; ++variant) {
    SimSetup setup = DrawSetup(variant);
    const ClusterConfig& cluster = setup.config.cluster;
    const bool joins = setup.servers > cluster.servers && cluster.balance == Balance::kAuto;
    if (joins && cluster.servers >= least_servers) setups.push_back(std::move(setup));
  }
  return setups;
}

TEST_CASE("a server that advertises an address at which nobody listens gets no slots") {
  const auto setups = SetupsWithNewcomer(1);
  REQUIRE(setups.size() >= 10);
  for (SimSetup setup : setups) {
    setup.misnamed_server = setup.servers;  // servers are numbered from 1 on
    const SimOutcome outcome = SimCluster(setup, FaultPlan(), setup.variant).Run();
    CAPTURE(setup.variant);
    CHECK(outcome.violations == std::vector<std::string>());
    CHECK(outcome.most_servers == setup.config.cluster.servers);
    CHECK(outcome.restores == 0);
  }
}

TEST_CASE("a server that only the scheduler reaches is left out") {
  const auto setups = SetupsWithNewcomer(2);
  REQUIRE(setups.size() >= 5);
  size_t joined = 0;
  for (const SimSetup& setup : setups) {
    const HostNumbers hosts(setup);
    FaultPlan plan;
    plan.end_us = kLongUs;
    for (uint32_t from = 1; from < hosts.count(); ++from) {
      if (from == setup.servers) continue;
      Fault cut;
      cut.kind = FaultKind::kPartition;
      cut.host = from;
      cut.other = setup.servers;
      cut.duration_us = kLongUs;
      plan.faults.push_back(cut);
    }
    const SimOutcome outcome = SimCluster(setup, plan, setup.variant).Run();
    CAPTURE(setup.variant);
    CHECK(outcome.violations == std::vector<std::string>());
    CHECK(outcome.duration_us < kLongUs);
    joined += outcome.most_servers > setup.config.cluster.servers;
  }
  CHECK(joined > 0);
}

}  // namespace
}  // namespace dslide::sim
