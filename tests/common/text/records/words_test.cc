#include "common/text/records/words.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/base/random.h"

namespace dslide {
namespace {

using Words = std::vector<std::string>;

Words WordsOf(std::string_view text, bool fold_accents = false) {
  WordBreaker breaker(fold_accents);
  Words words;
  breaker.ForEachWord(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST_CASE("words are runs of letters and digits, in lower case") {
  CHECK(WordsOf("Being Digital: a 1995-book (2nd ed.)") ==
        Words{"being", "digital", "a", "1995", "book", "2nd", "ed"});
  CHECK(WordsOf("").empty());
  CHECK(WordsOf(" --- \n\t!").empty());
  CHECK(WordsOf("end") == Words{"end"});
}

TEST_CASE("words of other scripts") {
  CHECK(WordsOf("ÄRZTE und STRAßE") == Words{"ärzte", "und", "straße"});
  CHECK(WordsOf("Война и мир") == Words{"война", "и", "мир"});
  CHECK(WordsOf("ΛΌΓΟΣ") == Words{"λόγοσ"});
  CHECK(WordsOf("x² ½ Ⅳ") == Words{"x"});  // no letters, no decimal digits
}

TEST_CASE("composed and decomposed letters make the same word") {
  CHECK(WordsOf("a\xcc\x88rzte") == WordsOf("\xc3\xa4rzte"));
  // A mark that no composed letter has stays in the word.
  CHECK(WordsOf("q\xcc\x88y") == Words{"q\xcc\x88y"});
}

TEST_CASE("without accents") {
  CHECK(WordsOf("Ärzte à Zürich, Łódź", true) == Words{"arzte", "a", "zurich", "łodz"});
  CHECK(WordsOf("a\xcc\x88rzte", true) == Words{"arzte"});
}

TEST_CASE("words that no space separates are found by dictionary") {
  CHECK(WordsOf("今日は良い天気です") == Words{"今日", "は", "良い", "天気", "です"});
  CHECK(WordsOf("ภาษาไทย abc") == Words{"ภาษา", "ไทย", "abc"});
}

TEST_CASE("what is no UTF-8 separates words") {
  CHECK(WordsOf("ab\xff"
                "cd\xc3") == Words{"ab", "cd"});
  CHECK(WordsOf(std::string_view("a\0b", 3)) == Words{"a", "b"});
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random.Below(40), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Below(256));
    for (const bool fold : {false, true}) {
      for (const std::string& word : WordsOf(bytes, fold)) REQUIRE(!word.empty());
    }
  }
}

}  // namespace
}  // namespace dslide
