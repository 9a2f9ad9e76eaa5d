#include "tools/dslide/tune/search_space.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/support/results.h"

namespace dslide::search_space_test {
namespace {

// What the scheduler makes of a configuration for data with frequent labels, or rare ones.
Config Effective(const Config& base, double label_repeats = 100) {
  Config config = base;
  ResolveConfig(100'000, 50'000, &config, {.label_repeats = label_repeats});
  return config;
}

std::string ErrorOf(const std::string& search, const Config& base = {}) {
  const auto axis = ParseSearch(search, base);
  return axis.ok() ? "" : axis.error().message;
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("search: a key and its values, as the configuration writes them") {
  const auto axis = Ok(ParseSearch("model.hidden = 64, 128,256", {}));
  CHECK(axis == SearchAxis{"model.hidden", {"64", "128", "256"}});
  CHECK(ParseSearch("train.learning_rate=0.5x,0.10", {})->values ==
        std::vector<std::string>{"0.5x", "0.1"});
}

TEST_CASE("search: what is wrong is named") {
  CHECK(Contains(ErrorOf("model.hidden"), "must be section.key=value,value"));
  CHECK(Contains(ErrorOf("model.hiden=3"), "did you mean model.hidden?"));
  CHECK(Contains(ErrorOf("model.hidden=0"), "must be 1 to 8192"));
  CHECK(Contains(ErrorOf("model.hidden=64,,128"), "a value is empty"));
  CHECK(Contains(ErrorOf("model.hidden=64,064"), "64 is given twice"));
  CHECK(Contains(ErrorOf("model.hidden=2x"), "model.hidden = 2x"));
  CHECK(Contains(ErrorOf("train.learning_rate=-1x"), "-1x"));
  CHECK(Contains(ErrorOf("train.test=a,b"), "use --set"));
  CHECK(Contains(ErrorOf("train.batch=256,0"), "train.batch=256,0: 0 is derived from the data"));
  CHECK(Contains(ErrorOf("train.epochs=0"), "name numbers"));
  CHECK(Contains(ErrorOf("cluster.executors=1,2"), "use --set"));
  CHECK(Contains(ErrorOf("train.target_batch=1024"), "asynchronous training has no steps"));
  const auto twice = ParseSearches({"hash.k=3,4", "hash.k=5"}, {});
  CHECK(Contains(twice.error().message, "hash.k is given twice"));
}

TEST_CASE("search: the ranges lie around the user's configuration") {
  Config base;
  base.model.hidden = 100;
  base.train.epochs = 4;
  const auto axes = DefaultAxes(base, Effective(base));
  REQUIRE(axes.size() == 4);
  CHECK(axes[0].values.front() == "1x");
  CHECK(axes[1].values == std::vector<std::string>{"100", "50", "200"});
  CHECK(axes[2].values == std::vector<std::string>{"4", "2", "6"});
  CHECK(axes[3].values == std::vector<std::string>{"0.1", "0", "0.05", "0.2", "0.35"});
  for (const SearchAxis& axis : axes)
    CHECK(ParseSearch(axis.key + "=" + axis.values[1], base).ok());
  base.model.hidden = 8192;
  base.train.epochs = 1;
  const auto ends = DefaultAxes(base, Effective(base));
  CHECK(ends[1].values == std::vector<std::string>{"8192", "4096"});
  CHECK(ends[2].values == std::vector<std::string>{"1"});
}

TEST_CASE("search: centroids have no hidden dropout, and need three epochs to learn") {
  const Config base;
  const Config rare = Effective(base, 1.5);
  REQUIRE(rare.model.neurons == Neurons::kCentroids);
  for (const SearchAxis& axis : DefaultAxes(base, rare)) CHECK(axis.key != "train.dropout_hidden");
  CHECK(LeastEpochs(rare) == 3);
  CHECK(LeastEpochs(Effective(base)) == 1);
}

TEST_CASE("candidates: the default first, then distinct ones, the same for a seed") {
  Config base;
  base.train.epochs = 8;
  const Config effective = Effective(base);
  const auto axes = DefaultAxes(base, effective);
  const auto draw = [&](uint32_t count, uint64_t seed) {
    std::vector<KeyValues> drawn;
    for (const Candidate& candidate : DrawCandidates(base, effective, axes, count, seed)) {
      drawn.push_back(candidate.settings);
    }
    return drawn;
  };
  const auto candidates = draw(81, 1);
  REQUIRE(candidates.size() == 81);
  CHECK(candidates[0].empty());
  CHECK(std::set(candidates.begin(), candidates.end()).size() == 81);
  CHECK(candidates == draw(81, 1));
  CHECK(candidates != draw(81, 2));
  const auto few = draw(9, 1);
  CHECK(std::equal(few.begin(), few.end(), candidates.begin()));
  CHECK(draw(1000, 1).size() == 5 * 3 * 3 * 5);  // all there are
}

TEST_CASE("candidates: a factor of the learning rate follows the hidden units") {
  Config base;
  const Config effective = Effective(base);
  REQUIRE(effective.train.learning_rate == doctest::Approx(0.0707).epsilon(0.01));
  const std::vector<SearchAxis> axes = {{"train.learning_rate", {"2x"}}, {"model.hidden", {"128"}}};
  const auto derived = DrawCandidates(base, effective, axes, 9, 1);
  REQUIRE(derived.size() == 2);
  CHECK(derived[1].settings ==
        KeyValues{{"model.hidden", "128"}, {"train.learning_rate", "0.283"}});
  base.train.learning_rate = 0.03f;
  CHECK(DrawCandidates(base, Effective(base), axes, 9, 1)[1].settings.at("train.learning_rate") ==
        "0.06");
}

TEST_CASE("candidates: combinations that the configuration refuses are left out") {
  const Config base;
  const auto axes =
      Ok(ParseSearches({"model.active=mass,all", "model.sharing=batch,sample"}, base));
  for (const Candidate& c : DrawCandidates(base, Effective(base), axes, 9, 1)) {
    CHECK(WithSettings(base, c.settings).ok());
    CHECK(c.settings != KeyValues{{"model.active", "mass"}, {"model.sharing", "sample"}});
  }
}

TEST_CASE("candidates: a short run has the warm-up's share of a whole one") {
  Config base;
  base.train.warmup_batches = 100;
  base.train.epochs = 8;
  const Candidate own{{}, 8, 100, 1};
  CHECK(SettingsOfRun(own, base, 8).empty());
  CHECK(SettingsOfRun(own, base, 2) ==
        KeyValues{{"train.epochs", "2"}, {"train.warmup_batches", "25"}});
  const Candidate longer{{{"train.epochs", "12"}, {"model.hidden", "64"}}, 12, 100, 1};
  CHECK(SettingsOfRun(longer, base, 12) ==
        KeyValues{{"model.hidden", "64"}, {"train.epochs", "12"}});
  CHECK(SettingsOfRun(longer, base, 8) ==
        KeyValues{{"model.hidden", "64"}, {"train.warmup_batches", "67"}});
}

}  // namespace
}  // namespace dslide::search_space_test
