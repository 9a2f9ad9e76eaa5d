#include "scheduler/members/join_limits.h"

#include <doctest/doctest.h>

namespace dslide::join_limits_test {
namespace {

TEST_CASE("join limits: what a Join may claim") {
  Join join;
  CHECK(WhyNonsense(join).empty());
  join.name = std::string(64, 'x');
  join.address = std::string(255, 'x');
  join.cores = kMostCores;
  join.memory_bytes = kMostMemoryBytes;
  CHECK(WhyNonsense(join).empty());
  const auto with = [&](auto change) {
    Join changed = join;
    change(&changed);
    return WhyNonsense(changed);
  };
  CHECK(with([](Join* j) { j->name = std::string(1 << 20, '\n'); }) ==
        "its name has 1048576 bytes, a name has at most 64");
  CHECK(with([](Join* j) { j->address += 'x'; }) ==
        "its address has 256 bytes, an address has at most 255");
  CHECK(with([](Join* j) { j->cores = UINT32_MAX; }) ==
        "it says that it has 4294967295 cores, a member has at most 4096");
  CHECK(with([](Join* j) { j->memory_bytes = UINT64_MAX; }) ==
        "it says that it has 17179869183 GB of memory, a server has at most 65536");
}

TEST_CASE("join limits: there are so many members of a role, and not more") {
  Roster roster(1000);
  Join join;
  constexpr size_t kMostWorkers = 100;
  const auto why_full = [&](Role role) { return WhyFull(role, roster, kMostWorkers); };
  for (uint64_t i = 1; i <= kMostWorkers; ++i) {
    CHECK(why_full(Role::kWorker).empty());
    CHECK(roster.Add(join, {i}, std::to_string(i), 0).name ==
          (i == 1 ? "worker" : "worker-" + std::to_string(i)));
  }
  CHECK(why_full(Role::kWorker) ==
        "the run has 100 workers (cluster.most_workers), which is the most; try again later");
  CHECK(why_full(Role::kServer).empty());
  CHECK(why_full(Role::kObserver).empty());
  roster.Remove({7});
  CHECK(why_full(Role::kWorker).empty());
}

TEST_CASE("join limits: a thousand members may come at once, then two hundred a second") {
  JoinRate rate;
  const auto taken = [&](int64_t now_ms) {
    int count = 0;
    while (rate.Take(now_ms)) ++count;
    return count;
  };
  CHECK(taken(1'000'000) == 1000);
  CHECK(taken(1'000'500) == 100);
  CHECK(taken(999'000) == 0);  // a clock that goes back gives nothing
  CHECK(taken(9'000'000) == 1000);
}

}  // namespace
}  // namespace dslide::join_limits_test
