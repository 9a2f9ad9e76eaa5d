#include "tools/dslide/model/search_choice.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/support/results.h"

namespace dslide::search_choice_test {
namespace {

// Ways that find the first labels of the best hundred, each at a cost.
struct Ways {
  struct Way {
    uint32_t found;
    double seconds;
  };
  std::map<Search, Way> ways;
  double now = 5;
  std::map<Search, int> calls = {};

  Result<SearchChoice> Choose(std::vector<Search> order) {
    return ChooseSearch(
        order,
        [&](Search search) -> Result<TopKReply> {
          const bool first = calls[search]++ == 0;
          // Preparing costs much.
          now += ways.at(search).seconds + (first && search != Search::kExact ? 100 : 0);
          TopKReply reply;
          for (uint32_t i = 0; i < 100; ++i) {
            reply.ids.push_back(i < ways.at(search).found ? i : 1000 + i);
            reply.scores.push_back(-static_cast<float>(i));
            if (i == 49 || i == 99) reply.offsets.push_back(i + 1);
          }
          return reply;
        },
        [&] { return now; });
  }
};

constexpr Search kExact = Search::kExact, kScan = Search::kScan, kLsh = Search::kLsh;

TEST_CASE("search choice: the cheapest way with the wanted recall is taken") {
  Ways ways{{{kExact, {100, 4}}, {kScan, {99, 1}}, {kLsh, {98, 0.5}}}};
  const SearchChoice choice = Ok(ways.Choose({kExact, kScan, kLsh}));
  CHECK(choice.search == kScan);
  REQUIRE(choice.trials.size() == 2);
  CHECK(choice.trials[0].recall == doctest::Approx(0.99));
  CHECK(choice.trials[0].cost == doctest::Approx(0.25));
  CHECK(choice.trials[1].recall == doctest::Approx(0.98));
  CHECK(choice.Text() ==
        "search: scan (scan has recall 0.990 at 0.25 of exact's CPU, lsh has recall 0.980 at 0.12 "
        "of exact's CPU)");
  CHECK(ways.Choose({kExact})->Text() == "search: exact");
  ways = {{{kExact, {100, 4}}, {kScan, {100, 1}}, {kLsh, {100, 0.5}}}};
  CHECK(ways.Choose({kExact, kScan, kLsh})->search == kLsh);
}

TEST_CASE("search choice: exact stays where nothing is good or cheaper") {
  Ways ways{{{kExact, {100, 4}}, {kScan, {100, 3.8}}, {kLsh, {50, 0.5}}}};
  CHECK(ways.Choose({kExact, kScan, kLsh})->search == kExact);
  CHECK(ways.Choose({kExact})->search == kExact);
}

TEST_CASE("search choice: a failure is reported") {
  const auto fail = [](Search) -> Result<TopKReply> { return Failed("no rows"); };
  const std::vector<Search> ways = {kExact};
  CHECK(MessageOf(ChooseSearch(ways, fail, [] { return 0.0; }), ErrorKind::kFailed) == "no rows");
}

TEST_CASE("search choice: names") {
  for (const Search search : {kExact, kScan, kLsh}) {
    CHECK(SearchByName(SearchName(search)) == search);
  }
  CHECK(SearchByName("best") == std::nullopt);
  CHECK(SearchNames() == "exact|scan|lsh");
  ModelConfig model;
  model.active = ActiveSet::kMass;
  CHECK(SearchesOf(model) == std::vector{kExact, kScan});
  model.active = ActiveSet::kLsh;
  CHECK(SearchesOf(model) == std::vector{kExact, kScan, kLsh});
  model.active = ActiveSet::kMass;
  model.activation = Activation::kLinear;
  CHECK(SearchesOf(model) == std::vector{kExact});
}

}  // namespace
}  // namespace dslide::search_choice_test
