#include "common/rank/boosted_trees.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dslide::boosted_trees_test {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

TreeNode Split(int32_t feature, float value, uint32_t left, uint32_t right, bool missing_left) {
  return {feature, value, left, right, missing_left};
}
TreeNode Leaf(float value) { return {.value = value}; }

TEST_CASE("boosted trees: a row's score is the sum of its leaves") {
  const std::vector<TreeNode> nodes = {Split(0, 1.0f, 1, 2, true),   Leaf(10), Leaf(20),
                                       Split(1, -1.0f, 4, 5, false), Leaf(1),  Leaf(2)};
  const Result<BoostedTrees> trees = BoostedTrees::Of(nodes, {0, 3}, 2);
  REQUIRE(trees.ok());
  const auto score = [&](float a, float b) {
    const float row[] = {a, b};
    return trees->Score(row);
  };
  CHECK(score(0, -2) == 11);
  CHECK(score(1, -1) == 22);  // values below the split go left, equal ones right
  CHECK(score(kMissing, -2) == 11);
  CHECK(score(2, kMissing) == 22);
  CHECK(BoostedTrees().Score(nullptr) == 0);
}

TEST_CASE("boosted trees: refuses trees that do not end, or read elsewhere") {
  const auto refused = [](std::vector<TreeNode> nodes, std::vector<uint32_t> roots) {
    return !BoostedTrees::Of(std::move(nodes), std::move(roots), 2).ok();
  };
  CHECK(!refused({Split(1, 0, 1, 2, true), Leaf(0), Leaf(0)}, {0}));
  CHECK(refused({Split(2, 0, 1, 2, true), Leaf(0), Leaf(0)}, {0}));   // no such feature
  CHECK(refused({Split(-2, 0, 1, 2, true), Leaf(0), Leaf(0)}, {0}));  // the same
  CHECK(refused({Split(0, 0, 0, 2, true), Leaf(0), Leaf(0)}, {0}));   // its own child
  CHECK(refused({Split(0, 0, 1, 3, true), Leaf(0), Leaf(0)}, {0}));   // no such node
  CHECK(refused({Leaf(0)}, {1}));
  CHECK(refused({Leaf(kMissing)}, {0}));
}

}  // namespace
}  // namespace dslide::boosted_trees_test
