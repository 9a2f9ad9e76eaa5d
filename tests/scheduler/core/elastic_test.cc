// Servers that come while others are about to be missed: who takes whose place.
#include "tests/scheduler/support/fake_cluster.h"

namespace dslide::elastic_test {
namespace {

using Phase = SchedulerCore::Phase;

constexpr int64_t kGoneMs = 8000;  // a silence that no member survives

Config ElasticConfig() {
  Config config = RunConfig();
  config.cluster.balance = Balance::kAuto;
  config.cluster.takeover_s = 0;
  return config;
}

std::vector<uint64_t> ServersOf(const Plan& plan) {
  std::vector<uint64_t> servers;
  for (const PlanServer& server : plan.servers) servers.push_back(server.incarnation.value);
  return servers;
}

void StartNamed(FakeCluster* run) {
  run->Join(1, Role::kServer, "a");
  run->Join(2, Role::kServer, "b");
  run->Join(11, Role::kWorker);
  REQUIRE(run->core().phase() == Phase::kTraining);
}

TEST_CASE("elastic: who may be a replacement is not added to the plan beside the one it replaces") {
  FakeCluster run(ElasticConfig());
  StartNamed(&run);
  run.Silence(2);
  run.Join(3, Role::kServer, "b");  // started again before anybody missed it
  run.Wait(2000);
  CHECK(run.core().plan_version() == 1);
  run.Wait(kGoneMs);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.status().recoveries == 1);
  CHECK(ServersOf(run.PlanOf(1)) == std::vector<uint64_t>{1, 3});
}

TEST_CASE("elastic: two servers that live may ask for one name") {
  FakeCluster run(ElasticConfig());
  StartNamed(&run);
  run.Join(3, Role::kServer, "b");
  run.Wait(3000);
  CHECK(run.status().recoveries == 0);
  CHECK(ServersOf(run.PlanOf(1)) == std::vector<uint64_t>{1, 2, 3});
}

TEST_CASE("elastic: of more than cluster.servers one may be lost, and the others go on at once") {
  FakeCluster run(ElasticConfig());
  StartNamed(&run);
  run.Join(3, Role::kServer, "c");
  run.Wait(3000);
  REQUIRE(ServersOf(run.PlanOf(1)) == std::vector<uint64_t>{1, 2, 3});
  run.Silence(2);
  run.Wait(kGoneMs);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(ServersOf(run.PlanOf(1)) == std::vector<uint64_t>{1, 3});
  // One more is one too few: it is waited for.
  run.Silence(3);
  run.Wait(kGoneMs);
  CHECK(run.core().phase() == Phase::kGathering);
  CHECK(run.status().waiting.starts_with("waiting for c or a replacement"));
}

}  // namespace
}  // namespace dslide::elastic_test
