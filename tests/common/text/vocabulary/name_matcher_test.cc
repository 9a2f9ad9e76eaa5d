#include "common/text/vocabulary/name_matcher.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace dslide::name_matcher_test {
namespace {

// A vocabulary of one name a label.
Vocabulary Names(std::vector<std::string> names) {
  std::vector<std::string> ids;
  std::vector<uint32_t> owners;
  for (uint32_t i = 0; i < names.size(); ++i) {
    ids.push_back(fmt::format("id{}", i));
    owners.push_back(i);
  }
  return Vocabulary(std::move(ids), std::move(names), std::move(owners));
}

std::vector<uint32_t> LabelsIn(const NameMatcher& matcher, const std::string& text) {
  NameMatcher::Finder finder(matcher);
  std::vector<uint32_t> labels;
  for (const NameMatch& match : finder.Find({{text}, {}})) labels.push_back(match.label);
  return labels;
}

TEST_CASE("name matcher: takes the longest name at each place") {
  const NameMatcher matcher(Names({"climate", "climate change", "change", "climate change law"}),
                            std::string(kNoStems));
  CHECK(LabelsIn(matcher, "The climate, and Climate-Change!") == std::vector<uint32_t>{0, 1});
  CHECK(LabelsIn(matcher, "climate change law") == std::vector<uint32_t>{3});
  CHECK(LabelsIn(matcher, "climate change lawyers change") == std::vector<uint32_t>{1, 2});
  CHECK(LabelsIn(matcher, "climates changed") == std::vector<uint32_t>());
  CHECK(LabelsIn(matcher, "") == std::vector<uint32_t>());
}

TEST_CASE("name matcher: inflected forms match by their stems") {
  const NameMatcher matcher(Names({"Bibliothek", "house"}), "german");
  CHECK(LabelsIn(matcher, "in den Bibliotheken") == std::vector<uint32_t>{0});
  CHECK(LabelsIn(NameMatcher(Names({"houses of cards"}), "english"), "a house of cards") ==
        std::vector<uint32_t>{0});
}

TEST_CASE("name matcher: where, how often and how a label is mentioned") {
  const Vocabulary vocabulary({"1", "2"}, {"Mercury (planet)", "innermost planet", "Mercury (god)"},
                              {0, 0, 1});
  const NameMatcher matcher(vocabulary, std::string(kNoStems));
  NameMatcher::Finder finder(matcher);
  const auto found = finder.Find({{"On Mercury", "the innermost planet, Mercury (planet)"}, {}});
  REQUIRE(found.size() == 2);
  CHECK(found[0] == NameMatch{.label = 0,
                              .count = 3,
                              .in_title = 1,
                              .first = 1,
                              .words = 2,
                              .candidates = 1,
                              .is_preferred = true,
                              .is_whole = true});
  CHECK(found[1] == NameMatch{.label = 1,
                              .count = 1,
                              .in_title = 1,
                              .first = 1,
                              .words = 1,
                              .candidates = 2,
                              .is_preferred = true,
                              .is_whole = false});
  CHECK(finder.words() == 7);
  // A label that has a name twice is mentioned once.
  const Vocabulary twice({"1"}, {"Mars", "Mars (planet)"}, {0, 0});
  const NameMatcher of_twice(twice, std::string(kNoStems));
  NameMatcher::Finder mars(of_twice);
  CHECK(mars.Find({{"Mars"}, {}})[0].count == 1);
  CHECK(mars.Find({{"Mars"}, {}})[0].candidates == 1);
  // The first field is a title only beside others.
  CHECK(finder.Find({{"Mercury"}, {}})[0].in_title == 0);
}

TEST_CASE("name matcher: a short name matches only as it is written") {
  const NameMatcher matcher(Names({"IT", "EU", "Öl"}), std::string(kNoStems));
  CHECK(LabelsIn(matcher, "it is in the eu") == std::vector<uint32_t>());
  CHECK(LabelsIn(matcher, "IT in the EU") == std::vector<uint32_t>{0, 1});
  CHECK(LabelsIn(matcher, "it's an ITEM") == std::vector<uint32_t>());
  CHECK(LabelsIn(matcher, "Öl") == std::vector<uint32_t>{2});
  CHECK(LabelsIn(matcher, "öl") == std::vector<uint32_t>());
}

// Every label whose words occur one after another, unless a longer name begins there.
TEST_CASE("name matcher: random names in random texts are those of a plain search") {
  Random random(7);
  const auto words = [&](uint64_t count) {
    std::vector<std::string> chosen;
    for (uint64_t w = 0; w < count; ++w) chosen.push_back(fmt::format("word{}", random.Below(5)));
    return chosen;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<std::string>> names;
    std::vector<std::string> joined;
    for (int n = 0; n < 12; ++n) {
      names.push_back(words(1 + random.Below(4)));
      joined.push_back(fmt::format("{}", fmt::join(names.back(), " ")));
    }
    const std::vector<std::string> text = words(30);
    std::vector<uint32_t> expected;
    for (size_t at = 0; at < text.size();) {
      size_t longest = 0;
      const auto begins = [&](const std::vector<std::string>& name) {
        return at + name.size() <= text.size() &&
               std::equal(name.begin(), name.end(), text.begin() + static_cast<ptrdiff_t>(at));
      };
      for (const auto& name : names) {
        if (begins(name)) longest = std::max(longest, name.size());
      }
      for (uint32_t n = 0; n < names.size(); ++n) {
        if (names[n].size() == longest && begins(names[n])) expected.push_back(n);
      }
      at += std::max<size_t>(1, longest);
    }
    std::ranges::sort(expected);
    expected.erase(std::ranges::unique(expected).begin(), expected.end());
    CHECK(LabelsIn(NameMatcher(Names(joined), std::string(kNoStems)),
                   fmt::format("{}", fmt::join(text, " "))) == expected);
  }
}

}  // namespace
}  // namespace dslide::name_matcher_test
