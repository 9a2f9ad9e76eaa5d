#include "common/text/vocabulary/vocabulary.h"

#include <doctest/doctest.h>

#include <vector>

namespace dslide::vocabulary_test {
namespace {

Vocabulary Animals() {
  return Vocabulary(
      {"http://example.org/a1", "http://example.org/a2", "a3", "http://example.org/a4/"},
      {"cat", "house cat", "dog", "cat", "horse"}, {0, 0, 1, 2, 3});
}

TEST_CASE("Vocabulary: a concept has a preferred name and synonyms") {
  const Vocabulary animals = Animals();
  CHECK(animals.size() == 4);
  const auto names = animals.NamesOf(0);
  CHECK(std::vector<std::string>(names.begin(), names.end()) ==
        std::vector<std::string>{"cat", "house cat"});
  CHECK(animals.Label(0) == "cat");
  CHECK(animals.id(1) == "http://example.org/a2");
  CHECK(animals.CountAmbiguous() == 1);
}

TEST_CASE("Vocabulary: a concept without a name is shown by the end of its identifier") {
  const Vocabulary nameless({"http://example.org/yso/p5", "http://example.org/ns#q7", "gnd:4", "8",
                             "<http://example.org/9/>", "http://"},
                            {}, {});
  std::vector<std::string> labels;
  for (uint32_t c = 0; c < nameless.size(); ++c) labels.emplace_back(nameless.Label(c));
  CHECK(labels == std::vector<std::string>{"p5", "q7", "4", "8", "9", "http:"});
  CHECK(nameless.NamesOf(0).empty());
}

TEST_CASE("Vocabulary: Find takes identifiers as other files write them, and names") {
  const Vocabulary animals = Animals();
  CHECK(animals.Find("http://example.org/a2") == 1u);
  CHECK(animals.Find("https://example.org/a2/") == 1u);
  CHECK(animals.Find("<http://example.org/a2>") == 1u);
  CHECK(animals.Find("http://example.org/a4") == 3u);
  CHECK(animals.Find("a3") == 2u);
  CHECK(animals.Find("dog") == 1u);
  CHECK(animals.Find("house cat") == 0u);
  CHECK(animals.Find("cat") == 0u);  // of two concepts
  CHECK_FALSE(animals.Find("cow"));
  CHECK_FALSE(animals.Find(""));
  CHECK_FALSE(Vocabulary().Find("cat"));
  // A preferred name before another concept's synonym, an identifier before a name.
  const Vocabulary plants({"x", "y", "z"}, {"rose", "oak", "tree", "oak", "x"}, {0, 0, 1, 2, 2});
  CHECK(plants.Find("oak") == 2u);
  CHECK(plants.Find("x") == 0u);
}

TEST_CASE("Vocabulary: in another order, with fewer concepts") {
  const std::vector<uint32_t> order = {3, 0};
  const Vocabulary some = Animals().Reordered(order);
  CHECK(some.size() == 2);
  CHECK(some.Label(0) == "horse");
  CHECK(some.NamesOf(1).size() == 2);
  CHECK(some.Find("http://example.org/a1") == 1u);
  CHECK_FALSE(some.Find("dog"));
}

}  // namespace
}  // namespace dslide::vocabulary_test
