#include "scheduler/status/history.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/checkpoint/layout.h"
#include "tests/support/temp_directory.h"

namespace dslide::history_test {
namespace {

ProgressPoint After(double seconds, double loss, double samples) {
  ProgressPoint point;
  point.elapsed_s = seconds;
  point.loss = loss;
  point.weight = samples;
  return point;
}

LoadPoint Loads(double seconds, const std::vector<size_t>& slots) {
  LoadPoint point;
  point.elapsed_s = seconds;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] > 0) point.servers["server-" + std::to_string(i + 1)] = {1.25, slots[i]};
  }
  return point;
}

TEST_CASE("history: merged points have the mean over their samples") {
  ProgressPoint point = After(1, 4.0, 100);
  ProgressPoint next = After(2, 1.0, 300);
  next.tail = 0.5;
  point.Merge(next);
  CHECK(point.elapsed_s == 2);
  CHECK(point.loss == doctest::Approx(1.75));
  CHECK(point.weight == 400);
  CHECK(point.tail == 0.5);
  CHECK_FALSE(point.recall);
}

TEST_CASE("history: a run of any length stays small, and reaches from the start to now") {
  RunHistory history;
  constexpr int kSeconds = 100'000;
  for (int second = 1; second <= kSeconds; ++second) {
    history.Add(After(second, 1.0 / second, 512));
    history.Add(Loads(second, std::vector<size_t>(64, 4)));
    history.AddEvent({static_cast<double>(second), "", "event " + std::to_string(second), {}});
    history.AddLoss({static_cast<double>(second), "server-" + std::to_string(second)});
    if (second % 10 == 0)
      history.Add(EvaluationPoint{static_cast<double>(second), second / 10.0, {}});
  }
  const nlohmann::ordered_json json = history.Json(0);
  const auto& progress = json["progress"];
  CHECK(progress["elapsed_s"].size() <= RunHistory::kProgress);
  CHECK(progress["elapsed_s"].size() >= RunHistory::kProgress / 2);
  CHECK(progress["elapsed_s"].back() == kSeconds);
  CHECK(progress["loss"].size() == progress["elapsed_s"].size());
  CHECK_FALSE(progress.contains("recall"));  // was never measured
  CHECK(json["evaluations"]["epochs"].back() == kSeconds / 10);
  CHECK(json["loads"]["servers"].size() == 64);
  CHECK(json["loads"]["elapsed_s"].size() * 64 <= RunHistory::kLoadCells + 64);
  CHECK(json["events"].size() == RunHistory::kEvents);
  CHECK(json["events"].back()["text"] == "event " + std::to_string(kSeconds));
  CHECK(json["lost"].size() == RunHistory::kLosses);
  CHECK(json["lost"].back()["server"] == "server-" + std::to_string(kSeconds));
  CHECK(TextOf(json).size() < 100'000);
}

TEST_CASE("history: a server's loads are in percent, its slots where they changed") {
  RunHistory history;
  history.Add(Loads(1, {4, 4}));
  history.Add(Loads(2, {4, 4}));
  history.Add(Loads(3, {5, 3}));
  history.Add(Loads(4, {8, 0}));
  using Json = nlohmann::ordered_json;
  const Json loads = history.Json(0)["loads"];
  CHECK(loads["elapsed_s"] == Json({1, 2, 3, 4}));
  CHECK(loads["servers"][0]["load"] == Json({125, 125, 125, 125}));
  CHECK(loads["servers"][0]["slots"] == Json::parse("[[0,4],[2,5],[3,8]]"));
  CHECK(loads["servers"][1]["load"] == Json({125, 125, 125, nullptr}));
  CHECK(loads["servers"][1]["slots"] == Json::parse("[[0,4],[2,3],[3,0]]"));
}

TEST_CASE("history: the newest checkpoints stay, and examples are the last ones") {
  RunHistory history;
  for (const char* name : {"a", "b", "c"}) history.AddCheckpoint({name, 5, 10, 20, 30, 1}, 2);
  history.SetExamples({{1, {"x"}, {"y"}}});
  const nlohmann::ordered_json json = history.Json(7.2);
  CHECK(json["time"] == 7);
  REQUIRE(json["checkpoints"].size() == 2);
  CHECK(json["checkpoints"][1]["name"] == "c");
  CHECK(json["examples"][0]["predicted"][0] == "y");
  CHECK(ExampleLines({{1, {"x"}, {"y"}}}) ==
        "{\"number\":1,\"labels\":[\"x\"],\"predicted\":[\"y\"]}\n");
}

TEST_CASE("history: what is no number or no UTF-8 does not damage it") {
  RunHistory history;
  history.Add(After(1, std::numeric_limits<double>::quiet_NaN(), 1));
  history.AddEvent({1, "", "\xff\xfe", {}});
  const auto json = nlohmann::json::parse(TextOf(history.Json(0)), nullptr, false);
  REQUIRE(json.is_object());
  CHECK(json["progress"]["loss"][0].is_null());
}

TEST_CASE("history: a checkpoint is as old as its manifest says, also in a copy") {
  namespace fs = std::filesystem;
  const TempDirectory directory;
  Manifest manifest;
  manifest.name = CheckpointName(1);
  const std::string path = directory.path() + "/" + manifest.name;
  fs::create_directory(path);
  REQUIRE(WriteManifest(path, manifest).ok());  // of an earlier version
  CHECK(CheckpointsIn(directory.path()).at(0).written > 1'763'985'600);
  manifest.written_s = 1'763'985'600;
  REQUIRE(WriteManifest(path, manifest).ok());
  CHECK(CheckpointsIn(directory.path()).at(0).written == 1'763'985'600);
}

}  // namespace
}  // namespace dslide::history_test
