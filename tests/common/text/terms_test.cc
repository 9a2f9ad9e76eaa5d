#include "common/text/terms.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dslide {
namespace {

using Names = std::vector<std::string>;

Names NamesOf(const TextConfig& config, const std::vector<std::string>& fields) {
  TermExtractor extractor(config);
  const size_t count = extractor.TermsOf({fields, {}}).size();
  Names names;
  for (size_t i = 0; i < count; ++i) names.push_back(extractor.NameOf(i));
  return names;
}

TextConfig WordsOnly() {
  TextConfig config;
  config.title = false;
  return config;
}

TEST_CASE("words and pairs are of stems") {
  TextConfig config = WordsOnly();
  config.stem = "german";
  config.ngrams = 2;
  CHECK(NamesOf(config, {"Die roten Häuser", "schöne Boote"}) ==
        Names{"die", "rot", "haus", "die rot", "rot haus", "schon", "boot", "schon boot"});
  config.title = true;
  config.title_chars = 0;
  config.ngrams = 1;
  CHECK(NamesOf(config, {"rote Häuser", ""}) ==
        Names{"rot", "title:rot", "haus", "title:haus", "title:rot haus"});
}

TEST_CASE("character n-grams come from words, not from stems") {
  TextConfig config;
  config.stem = "german";
  config.title_chars = 5;
  config.title_pairs = false;
  CHECK(NamesOf(config, {"Häuser", ""}) ==
        Names{"haus", "title:<häus", "title:häuse", "title:äuser", "title:user>"});
  config.title = false;
  config.chars = 6;
  CHECK(NamesOf(config, {"", "Häuser am"}) ==
        Names{"haus", "chars:<häuse", "chars:häuser", "chars:äuser>", "am", "chars:<am>"});
}

TEST_CASE("forms of a word are one term, and those of other blocks are others") {
  TextConfig config;
  config.stem = "english";
  config.chars = 5;
  TermExtractor extractor(config);
  const auto hashes = [&](const std::string& text) {
    const auto terms = extractor.TermsOf({{text, ""}, {}});
    return std::vector<uint64_t>(terms.begin(), terms.end());
  };
  const std::vector<uint64_t> houses = hashes("houses");
  // The word, then the n-grams "<hous", "house", "ouses" and "uses>" as characters and of the
  // title.
  REQUIRE(houses.size() == 1 + 4 + 4);
  CHECK(hashes("house")[0] == houses[0]);
  CHECK(std::set<uint64_t>(houses.begin(), houses.end()).size() == houses.size());
}

TEST_CASE("stems of a text do not depend on the texts before it") {
  TextConfig config;
  config.stem = "english";
  TermExtractor extractor(config);
  const auto first = [&](const std::string& text) {
    extractor.TermsOf({{text}, {}});
    return extractor.NameOf(0);
  };
  CHECK(first("running boats") == "run");
  CHECK(first("boats") == "boat");
  CHECK(first("running") == "run");
}

// Terms are in stored models. A change of these hashes needs another format.
TEST_CASE("hashes of terms stay what they are") {
  TextConfig config;
  config.title_chars = 5;
  config.chars = 3;
  config.ngrams = 2;
  TermExtractor extractor(config);
  const std::vector<std::pair<std::string, uint64_t>> expected = {
      {"red", 0x67b1dc007bbe6755},         {"chars:<re", 0x25b668aa564c0f82},
      {"chars:red", 0xf889cbbfa538a286},   {"chars:ed>", 0x1b789455a49166d3},
      {"title:<red>", 0xa4adedce9eae2eb8}, {"boat", 0x5e9d0c14fd9f1406},
      {"chars:<bo", 0x50fa04056d4be9d3},   {"chars:boa", 0x30852a8d02307a3a},
      {"chars:oat", 0xbdbfed4677bfdd75},   {"chars:at>", 0xeebeca20d9dd5503},
      {"title:<boat", 0xe19720ac828df785}, {"title:boat>", 0x106063a0d1c66797},
      {"red boat", 0x5c9ee297da167f10},    {"title:red boat", 0xeb158360d55a53e8},
  };
  const auto terms = extractor.TermsOf({{"red boat"}, {}});
  REQUIRE(terms.size() == expected.size());
  for (size_t i = 0; i < terms.size(); ++i) {
    CAPTURE(expected[i].first);
    CHECK(extractor.NameOf(i) == expected[i].first);
    CHECK(terms[i] == expected[i].second);
  }
}

}  // namespace
}  // namespace dslide
