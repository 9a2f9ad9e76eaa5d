#include "common/stem/stemmer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace dslide {
namespace {

using Words = std::vector<std::string>;

Words StemsOf(const std::string& language, const Words& words) {
  Stemmer stemmer(language);
  Words stems;
  for (const std::string& word : words) stems.emplace_back(stemmer.StemOf(word));
  return stems;
}

// The pure Python package snowballstemmer 2.2.0 gives these.
TEST_CASE("stems are those of Snowball") {
  CHECK(StemsOf("english", {"running", "runs", "ran", "houses", "house", "generously", "skies",
                            "dying", "national"}) ==
        Words{"run", "run", "ran", "hous", "hous", "generous", "sky", "die", "nation"});
  CHECK(StemsOf("german", {"häuser", "haus", "häusern", "laufen", "läuft", "aufeinander",
                           "kategorische", "straße", "verkäufern", "schönes"}) ==
        Words{"haus", "haus", "haus", "lauf", "lauft", "aufeinand", "kategor", "strass", "verkauf",
              "schon"});
  CHECK(StemsOf("porter", {"generously", "relational", "conditional", "dying", "skies"}) ==
        Words{"gener", "relat", "condit", "dy", "ski"});
  CHECK(StemsOf("russian", {"войны", "война", "книгами"}) == Words{"войн", "войн", "книг"});
  CHECK(StemsOf("french", {"continuellement", "chevaux"}) == Words{"continuel", "cheval"});
  CHECK(StemsOf("turkish", {"kitaplar", "evlerimizden"}) == Words{"kitap", "ev"});
}

TEST_CASE("no word's stem is empty, whatever the word and the language") {
  for (const std::string& language : StemLanguages()) {
    CAPTURE(language);
    Stemmer stemmer(language);
    CHECK(stemmer.StemOf("").empty());
    Random random(3);
    for (int round = 0; round < 2000; ++round) {
      std::string word;
      const size_t letters = 1 + random.Below(12);
      for (size_t i = 0; i < letters; ++i) {
        constexpr const char* kLetters[] = {"a", "e", "i", "s", "y", "n", "g", "d",
                                            "l", "ü", "ß", "é", "ы", "ж", "ი", "ا",
                                            "ل", "த", "्",  "η", "7", "x", "ij"};
        word += kLetters[random.Below(std::size(kLetters))];
      }
      REQUIRE(!stemmer.StemOf(word).empty());
    }
  }
}

TEST_CASE("a very long word is its own stem") {
  Stemmer stemmer("english");
  std::string stem;
  while (stem.size() + 4 < Stemmer::kLongestWord) stem += "bo";
  const std::string word = stem + "ings";
  REQUIRE(word.size() == Stemmer::kLongestWord);
  CHECK(stemmer.StemOf(word) == stem);
  CHECK(stemmer.StemOf("b" + word) == "b" + word);
}

TEST_CASE("threads have stemmers of their own") {
  const Words words = {"running", "houses", "generously", "skies", "dying", "national"};
  const Words expected = StemsOf("english", words);
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (int& count : wrong) {
      threads.emplace_back([&] {
        Stemmer stemmer("english");
        for (int round = 0; round < 5000; ++round) {
          for (size_t w = 0; w < words.size(); ++w) {
            count += stemmer.StemOf(words[w]) != expected[w];
          }
        }
      });
    }
  }
  CHECK(wrong == std::vector<int>(4, 0));
}

}  // namespace
}  // namespace dslide
