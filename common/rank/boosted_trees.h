// Boosted regression trees: a row's score is the sum of one leaf's value of each tree (Friedman,
// "Greedy Function Approximation: A Gradient Boosting Machine", Annals of Statistics 2001).
// scheduler/rank/tree_fit.h grows the trees.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/error.h"

namespace dslide {

struct TreeNode {
  static constexpr int32_t kLeaf = -1;

  int32_t feature = kLeaf;
  float value = 0;    // a leaf's; else the split: lower values go left
  uint32_t left = 0;  // nodes of BoostedTrees
  uint32_t right = 0;
  bool missing_left = false;  // where a row without the feature (NaN) goes

  bool operator==(const TreeNode&) const = default;
};

// Immutable; any number of threads may use it.
class BoostedTrees {
 public:
  BoostedTrees() = default;
  // `roots`: nodes. An error (kBadInput) if a feature is not below `features`, or a child does not
  // stand behind its parent, so that every path ends.
  static Result<BoostedTrees> Of(std::vector<TreeNode> nodes, std::vector<uint32_t> roots,
                                 uint32_t features);

  // `row`: [features].
  float Score(const float* row) const;

  const std::vector<TreeNode>& nodes() const { return nodes_; }
  const std::vector<uint32_t>& roots() const { return roots_; }

 private:
  std::vector<TreeNode> nodes_;
  std::vector<uint32_t> roots_;
};

}  // namespace dslide
