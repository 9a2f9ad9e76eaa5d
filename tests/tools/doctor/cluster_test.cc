// What dslide doctor --all finds in a scheduler's status.
#include "tools/dslide/doctor/cluster.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace dslide::doctor_cluster_test {
namespace {

using Json = nlohmann::json;

constexpr char kWell[] = R"({
  "version": "1.0", "phase": "training", "line": "epoch 1/2", "waits": false, "imbalance": 1.1,
  "ledger_sync_ms": 2.5,
  "hook": {"runs": 3, "failures": 1, "in_a_row": 0, "why": ""},
  "members": [
    {"name": "s1", "role": "server", "state": "serving", "silent_s": 0.4, "memory_used_mb": 100,
     "memory_limit_mb": 1000, "disk_mb_per_second": 400, "disk_sync_ms": 3},
    {"name": "w1", "role": "worker", "state": "working", "silent_s": 0.2, "round_trip_ms": 12.5,
     "samples_per_second": 900, "link_mbit_per_second": 100, "malformed": 0}]})";

// The finding of a check; all that is not fine has a mend.
Finding Of(const Json& status, const std::string& check) {
  Findings findings;
  JudgeCluster(status, "1.0", &findings);
  Finding found;
  found.check = "none";
  for (const Finding& finding : findings.all()) {
    CHECK((finding.level == Finding::Level::kFine) == finding.mend.empty());
    if (finding.check == check) found = finding;
  }
  return found;
}

TEST_CASE("doctor --all: a cluster that is well") {
  Findings findings;
  JudgeCluster(Json::parse(kWell), "1.0", &findings);
  CHECK(findings.Count(Finding::Level::kFine) == findings.all().size());
  CHECK(Of(Json::parse(kWell), "s1: memory").what == "100 of 1000 MB used, 900 free");
  CHECK(Of(Json::parse(kWell), "s1: disk").what == "writes 400 MB/s, fsync 3.0 ms");
  CHECK(Of(Json::parse(kWell), "ledger: disk").what == "fsync 2.5 ms");
  CHECK(Of(Json::parse(kWell), "w1: work").what ==
        "900 samples/s, round trip 12.5 ms, its slowest link 100 Mbit/s");
}

TEST_CASE("doctor --all: what is wrong with a cluster") {
  struct Case {
    const char* change;  // a JSON patch
    const char* check;
    Finding::Level level;
  };
  constexpr auto kNote = Finding::Level::kNote, kProblem = Finding::Level::kProblem;
  for (const Case& one : {
           Case{R"([{"op": "replace", "path": "/version", "value": "0.9"}])", "version", kNote},
           {R"([{"op": "replace", "path": "/waits", "value": true}])", "run", kProblem},
           {R"([{"op": "remove", "path": "/members/1"}])", "workers", kProblem},
           {R"([{"op": "add", "path": "/checkpoint_problem", "value": "x"}])", "checkpoints",
            kProblem},
           {R"([{"op": "replace", "path": "/hook/in_a_row", "value": 2}])", "checkpoint.hook",
            kNote},
           {R"([{"op": "replace", "path": "/imbalance", "value": 2}])", "balance", kNote},
           {R"([{"op": "add", "path": "/offences", "value": 2}])", "offences", kNote},
           {R"([{"op": "add", "path": "/recoveries", "value": 2}])", "steps back", kNote},
           {R"([{"op": "replace", "path": "/members/0/state", "value": "missing"}])",
            "s1: last heard", kProblem},
           {R"([{"op": "replace", "path": "/members/0/silent_s", "value": 7}])", "s1: last heard",
            kNote},
           {R"([{"op": "replace", "path": "/members/0/memory_used_mb", "value": 950}])",
            "s1: memory", kNote},
           {R"([{"op": "replace", "path": "/members/0/disk_mb_per_second", "value": 8}])",
            "s1: disk", kNote},
           {R"([{"op": "replace", "path": "/members/0/disk_sync_ms", "value": 80}])", "s1: disk",
            kNote},
           {R"([{"op": "replace", "path": "/ledger_sync_ms", "value": 80}])", "ledger: disk",
            kNote},
           {R"([{"op": "add", "path": "/members/0/hook_failures", "value": 1}])",
            "s1: checkpoint.shard_hook", kNote},
           {R"([{"op": "add", "path": "/members/1/straggler", "value": true}])", "w1: work", kNote},
           {R"([{"op": "replace", "path": "/members/1/round_trip_ms", "value": 400}])", "w1: work",
            kNote},
           {R"([{"op": "replace", "path": "/members/1/malformed", "value": 4}])", "w1: work",
            kNote},
       }) {
    CAPTURE(one.change);
    const Finding found = Of(Json::parse(kWell).patch(Json::parse(one.change)), one.check);
    CHECK(found.check == one.check);
    CHECK(found.level == one.level);
  }
}

TEST_CASE("doctor --all: a status of another form") {
  for (const char* text : {"null", "[]", "{}", R"({"members": 3, "hook": 4, "version": 5})",
                           R"({"members": [3, {"role": 4, "silent_s": "x"}]})"}) {
    Findings findings;
    JudgeCluster(Json::parse(text), "1.0", &findings);
    CHECK(findings.all().size() < 5);
  }
}

}  // namespace
}  // namespace dslide::doctor_cluster_test
