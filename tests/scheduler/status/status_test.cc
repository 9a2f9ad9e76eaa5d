#include "scheduler/status/status.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace dslide::status_test {
namespace {

MemberStatus Worker(const std::string& name) {
  MemberStatus worker;
  worker.member.role = Role::kWorker;
  worker.member.name = name;
  return worker;
}

TEST_CASE("status: each worker has the decision for its name, and one without has none") {
  const RunContext run;
  RunStatus status;
  status.run = &run;
  status.members = {Worker("a"), Worker("b"), Worker("c")};
  status.decisions.workers = {{.name = "c", .lease_batches = 3, .in_flight_cap = 1},
                              {.name = "gone", .lease_batches = 9},
                              {.name = "a", .lease_batches = 2, .straggler = true}};
  const auto members = nlohmann::json::parse(StatusJson(status, {}, {}, "")).at("members");
  REQUIRE(members.size() == 3);
  CHECK(members[0].at("lease_batches") == 2);
  CHECK(members[0].at("straggler") == true);
  CHECK_FALSE(members[1].contains("lease_batches"));
  CHECK(members[2].at("lease_batches") == 3);
  CHECK(members[2].at("in_flight_cap") == 1);
  CHECK(members[2].at("straggler") == false);
}

}  // namespace
}  // namespace dslide::status_test
