#include "scheduler/pass/race.h"

#include <doctest/doctest.h>

namespace dslide {
namespace {

using Kind = Race::Step::Kind;

// Samples that differ by more than noise from those of another level.
std::vector<float> Level(float level) {
  std::vector<float> ndcg;
  for (int i = 0; i < 100; ++i) ndcg.push_back(level + static_cast<float>(i % 5) / 1000);
  return ndcg;
}

const std::vector<RaceAxis> kAxes = {{"train.dropout_hidden", "0.1", {"0.5"}},
                                     {"train.learning_rate", "0.08", {"0.04", "0.02"}}};

// The present trial is as good as this after its epochs.
void Measure(Race* race, const std::vector<float>& levels) {
  for (uint32_t i = 0; i < levels.size(); ++i) race->Add(i + 1, Level(levels[i]));
}

void Begin(Race* race, const Overrides& settings) {
  const Race::Step step = race->Next();
  REQUIRE(step.kind == Kind::kBegin);
  CHECK(step.trial == race->trials());
  CHECK(step.settings == settings);
  race->SetCurrent(step.trial, step.settings);
}

}  // namespace

TEST_CASE("race: a trial that is better stays, and the next key is tried with it") {
  Race race(kAxes, 9);
  Measure(&race, {0.1f, 0.2f});
  CHECK(race.Next().kind == Kind::kGoOn);
  CHECK_FALSE(race.settled());
  race.Add(3, Level(0.3f));
  CHECK(race.Next().is_best);
  Begin(&race, {"train.dropout_hidden=0.5"});
  Measure(&race, {0.08f, 0.21f});  // it begins slowly
  CHECK(race.Next().kind == Kind::kGoOn);
  race.Add(3, Level(0.31f));
  CHECK(race.Next().is_best);
  Begin(&race, {"train.dropout_hidden=0.5", "train.learning_rate=0.04"});
  Measure(&race, {0.1f, 0.22f, 0.32f});
  Begin(&race, {"train.dropout_hidden=0.5", "train.learning_rate=0.02"});
  Measure(&race, {0.1f, 0.22f, 0.31f});
  const Race::Step step = race.Next();
  CHECK(step.kind == Kind::kReturn);
  CHECK(step.trial == 2);
  CHECK_FALSE(step.is_best);
  race.SetCurrent(step.trial, step.settings);
  CHECK(race.settled());
  race.Add(4, Level(0.33f));
  CHECK(race.Next().kind == Kind::kGoOn);
  CHECK(race.ResultLines().size() == 3);
  CHECK(race.ResultLines()[1] ==
        "train.learning_rate 0.04: held-out nDCG@5 32.20 after 3 epochs, 0.08: 31.20");
}

TEST_CASE("race: what is as good as the run's own configuration, or far behind it, is given up") {
  Race race(kAxes, 9);
  Measure(&race, {0.1f, 0.2f, 0.3f});
  Begin(&race, {"train.dropout_hidden=0.5"});
  SUBCASE("as good") { Measure(&race, {0.1f, 0.2f, 0.3f}); }
  SUBCASE("worse after two epochs") { Measure(&race, {0.1f, 0.19f}); }
  SUBCASE("far behind after one") { Measure(&race, {0.07f}); }
  Begin(&race, {"train.learning_rate=0.04"});
  Measure(&race, {0.05f});
  const Race::Step step = race.Next();  // the other value is not tried
  CHECK(step.kind == Kind::kReturn);
  CHECK(step.trial == 0);
  CHECK(step.settings.empty());
}

TEST_CASE("race: no trial begins that the epochs do not suffice for") {
  Race race(kAxes, 5);
  Measure(&race, {0.1f, 0.2f, 0.3f});
  Begin(&race, {"train.dropout_hidden=0.5"});
  Measure(&race, {0.1f, 0.2f, 0.31f});
  CHECK(race.Next().kind == Kind::kGoOn);
  CHECK(race.settled());
  Race none(kAxes, 2);
  Measure(&none, {0.1f, 0.2f, 0.3f});
  CHECK(none.settled());
  CHECK(Race().settled());
}

TEST_CASE("race: a later life finds what follows from the same measures") {
  Race race(kAxes, 9), again(kAxes, 9);
  Measure(&race, {0.1f, 0.2f, 0.3f});
  Begin(&race, {"train.dropout_hidden=0.5"});
  Measure(&race, {0.1f, 0.2f, 0.31f});
  again.SetCurrent(0, {});
  Measure(&again, {0.1f, 0.2f, 0.3f});
  again.SetCurrent(1, {"train.dropout_hidden=0.5"});
  Measure(&again, {0.1f, 0.2f, 0.31f});
  CHECK(again.Next().settings == race.Next().settings);
  CHECK(again.ResultLines() == race.ResultLines());
}

TEST_CASE("race: the keys that are left open, and what is tried") {
  Config asked, resolved;
  resolved.train.learning_rate = 0.05f;
  resolved.train.dropout_hidden = 0.1f;
  CHECK(OpenKeys(asked) == std::vector<std::string>{"train.dropout_hidden", "train.learning_rate"});
  const std::vector<RaceAxis> axes = AxesOf(OpenKeys(asked), resolved);
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].values == std::vector<std::string>{"0.5"});
  CHECK(axes[1].own == "0.05");
  CHECK(axes[1].values == std::vector<std::string>{"0.025", "0.0125"});
  asked.train.learning_rate = 0.05f;
  CHECK(OpenKeys(asked) == std::vector<std::string>{"train.dropout_hidden"});
  resolved.train.dropout_hidden = 0.0f;  // words
  CHECK(AxesOf(OpenKeys(asked), resolved).empty());
}

}  // namespace dslide
