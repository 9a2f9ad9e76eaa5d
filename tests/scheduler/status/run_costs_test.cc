#include "scheduler/status/run_costs.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/security/token.h"
#include "scheduler/status/summary.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::run_costs_test {
namespace {

MemberStatus Using(uint64_t incarnation, double cpu_seconds) {
  MemberStatus member;
  member.member.incarnation = {incarnation};
  member.member.heartbeat.cpu_seconds = cpu_seconds;
  return member;
}

// A life that has trained 100 samples in 2 s.
RunStatus Life() {
  RunStatus status;
  status.phase = RunPhase::kFinished;
  status.work.batches = 10;
  status.work.samples = 100;
  status.work.loss_sum = 300;
  status.work.bytes_sent = 5000;
  status.work.bytes_by_kind[1] = 5000;
  status.lease_bytes_per_sample = 7;
  status.training_ms = 2000;
  status.cpu_seconds = 9;
  status.training_cpu_seconds = 8;
  status.peak_rss_bytes = 400;
  return status;
}

TEST_CASE("run costs: the figures are those of all lives") {
  const RunCosts first = CostMeter({}).Read(Life(), {1, 100});
  CHECK(first.cpu_seconds == 10);
  const RunCosts read = Ok(ParseCosts(FormatCosts(first)));
  RunStatus second = Life();
  second.training_ms = 8000;
  second.work.loss_sum = 100;
  second.lease_bytes_per_sample = 3;
  second.peak_rss_bytes = 50;
  const RunCosts both = CostMeter(read).Read(second, {2, 100});
  CHECK(both.peak_rss_bytes == 500);
  nlohmann::ordered_json json;
  AddCosts(both, &json);
  CHECK(json["whole_run"] == true);
  CHECK(json["train_seconds"] == 10);
  CHECK(json["samples_per_second"] == 20);
  CHECK(json["loss"] == 2);
  CHECK(json["bytes_sent_per_sample"] == 50);
  CHECK(json["bytes_per_sample_by_message"].size() == 1);
  CHECK(json["lease_bytes_per_sample"] == 5);
  CHECK(json["cpu_seconds"] == 21);
  CHECK(json["train_cpu_seconds"] == 19);
}

TEST_CASE("run costs: a life reads them again and again") {
  CostMeter meter(CostMeter({}).Read(Life(), {}));
  CHECK(meter.Read(Life(), {}).work.samples == 200);
  CHECK(meter.Read(Life(), {}).work.samples == 200);
}

TEST_CASE("run costs: while training goes on its CPU time is what the members have used") {
  RunStatus status = Life();
  status.phase = RunPhase::kTraining;
  CHECK(CostMeter({}).Read(status, {}).train_cpu_seconds == 9);
}

TEST_CASE("run costs: a member that outlives the scheduler is counted once") {
  RunStatus first = Life();
  first.members = {Using(1, 6), Using(2, 3)};
  const RunCosts killed = CostMeter({}).Read(first, {});
  CHECK(killed.cpu_seconds == 9);
  // The second life is killed before the members join again.
  RunStatus nobody = Life();
  nobody.cpu_seconds = nobody.training_cpu_seconds = 0;
  const RunCosts again = CostMeter(killed).Read(nobody, {});
  CHECK(again.cpu_seconds == 9);
  // Member 1 has come again, and member 3 is new.
  RunStatus third = Life();
  third.members = {Using(1, 7), Using(3, 2)};
  CostMeter meter(*ParseCosts(FormatCosts(again)));
  const RunCosts all = meter.Read(third, {});
  CHECK(all.cpu_seconds == 9 + 1 + 2);
  CHECK(all.train_cpu_seconds == 8 + 0 + 2);
  CHECK(all.member_cpu_seconds ==
        std::map<uint64_t, double>{{LifeOf({1}), 7}, {LifeOf({2}), 3}, {LifeOf({3}), 2}});
  third.members.clear();  // they have left; the roster's sum keeps them
  CHECK(meter.Read(third, {}).cpu_seconds == 12);
}

TEST_CASE("run costs: without totals of a life that has trained they are not the whole run's") {
  const TempDirectory directory;
  CHECK(EarlierCosts(directory.path(), false).whole_run);
  CHECK_FALSE(EarlierCosts(directory.path(), true).whole_run);
  const std::string path = directory.path() + "/" + kTotalsName;
  RunCosts some;
  some.train_seconds = 3;
  std::ofstream(path) << FormatCosts(some);
  CHECK(EarlierCosts(directory.path(), true).train_seconds == 3);
  CHECK(EarlierCosts(directory.path(), true).whole_run);
  for (const char* damaged : {"", "{", "[]", "{\"lease_bytes\":\"a\"}"}) {
    std::ofstream(path) << damaged;
    CHECK_FALSE(EarlierCosts(directory.path(), true).whole_run);
  }
}

}  // namespace
}  // namespace dslide::run_costs_test
