#include "common/rank/boosted_trees.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dslide {

Result<BoostedTrees> BoostedTrees::Of(std::vector<TreeNode> nodes, std::vector<uint32_t> roots,
                                      uint32_t features) {
  const size_t count = nodes.size();
  bool valid = std::ranges::all_of(roots, [&](uint32_t root) { return root < count; });
  for (size_t n = 0; n < count; ++n) {
    const TreeNode& node = nodes[n];
    valid &= std::isfinite(node.value);
    if (node.feature == TreeNode::kLeaf) continue;
    valid &= node.feature >= 0 && static_cast<uint32_t>(node.feature) < features;
    for (const uint32_t child : {node.left, node.right}) valid &= child > n && child < count;
  }
  if (!valid) return BadInput("damaged trees");
  BoostedTrees trees;
  trees.nodes_ = std::move(nodes);
  trees.roots_ = std::move(roots);
  return trees;
}

float BoostedTrees::Score(const float* row) const {
  float score = 0;
  for (const uint32_t root : roots_) {
    const TreeNode* node = &nodes_[root];
    while (node->feature != TreeNode::kLeaf) {
      const float value = row[node->feature];
      const bool left = std::isnan(value) ? node->missing_left : value < node->value;
      node = &nodes_[left ? node->left : node->right];
    }
    score += node->value;
  }
  return score;
}

}  // namespace dslide
