#include "common/rank/stored_reranker.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

namespace dslide::stored_reranker_test {
namespace {

Vocabulary Concepts() { return Vocabulary({"a", "b"}, {"house", "boat"}, {0, 1}); }

Reranker Made() {
  Result<BoostedTrees> trees =
      BoostedTrees::Of({{static_cast<int32_t>(RankFeature::kNameCount), 0.5f, 1, 2, true},
                        {.value = -1},
                        {.value = 2}},
                       {0}, kRankFeatures);
  REQUIRE(trees.ok());
  return {LabelFacts({3, 0}, {{5, 4}, {0, 0}}, Concepts()), *std::move(trees), "english"};
}

TEST_CASE("stored reranker: is the one that was stored") {
  const Reranker made = Made();
  const auto read = ParseReranker(RerankerBytes(made), Concepts(), "file", "mend it");
  REQUIRE(read.ok());
  CHECK((*read)->stem() == "english");
  CHECK((*read)->facts().samples() == made.facts().samples());
  CHECK((*read)->facts().tallies() == made.facts().tallies());
  CHECK((*read)->trees().nodes() == made.trees().nodes());
  CHECK((*read)->trees().roots() == made.trees().roots());
}

TEST_CASE("stored reranker: damage is an error that names the file") {
  const std::string bytes = RerankerBytes(Made());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto read = ParseReranker(bytes.substr(0, size), Concepts(), "file", "mend it");
    if (!read.ok()) CHECK(read.error().message.starts_with("file: "));
  }
  CHECK(!ParseReranker("", Concepts(), "file", "mend it").ok());
  CHECK(!ParseReranker(std::string(100, '\xff'), Concepts(), "file", "mend it").ok());
  const auto other = ParseReranker(bytes, Vocabulary({"a"}, {"house"}, {0}), "file", "mend it");
  CHECK(!ParseReranker(bytes, Vocabulary(), "file", "mend it").ok());
  REQUIRE(!other.ok());
  CHECK(other.error().message == "file: reranker: is that of another model; mend it");
}

}  // namespace
}  // namespace dslide::stored_reranker_test
