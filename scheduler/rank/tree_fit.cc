#include "scheduler/rank/tree_fit.h"

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace dslide {
namespace {

constexpr int kTrees = 100;

struct FreeMatrix {
  void operator()(void* matrix) const { XGDMatrixFree(matrix); }
};
struct FreeBooster {
  void operator()(void* booster) const { XGBoosterFree(booster); }
};

Status Checked(int code) {
  if (code == 0) return {};
  return Failed(fmt::format("XGBoost: {}", XGBGetLastError()));
}

// Appends the nodes of a tree in the JSON form of an XGBoost model. A leaf has the child -1.
void AddTree(const nlohmann::json& tree, std::vector<TreeNode>* nodes,
             std::vector<uint32_t>* roots) {
  const auto& left = tree.at("left_children");
  const auto& right = tree.at("right_children");
  const auto& features = tree.at("split_indices");
  const auto& values = tree.at("split_conditions");  // of a leaf: its value
  const auto& missing_left = tree.at("default_left");
  const auto first = static_cast<uint32_t>(nodes->size());
  roots->push_back(first);
  for (size_t n = 0; n < left.size(); ++n) {
    TreeNode node{.value = values[n].get<float>()};
    if (left[n].get<int>() >= 0) {
      node.feature = features[n].get<int32_t>();
      node.left = first + left[n].get<uint32_t>();
      node.right = first + right[n].get<uint32_t>();
      node.missing_left = missing_left[n].get<int>() != 0;
    }
    nodes->push_back(node);
  }
}

}  // namespace

Result<BoostedTrees> FitTrees(std::span<const float> rows, uint32_t features,
                              std::span<const float> targets) {
  DMatrixHandle made = nullptr;
  DSLIDE_RETURN_IF_ERROR(Checked(XGDMatrixCreateFromMat(
      rows.data(), targets.size(), features, std::numeric_limits<float>::quiet_NaN(), &made)));
  const std::unique_ptr<void, FreeMatrix> matrix(made);
  DSLIDE_RETURN_IF_ERROR(
      Checked(XGDMatrixSetFloatInfo(made, "label", targets.data(), targets.size())));
  BoosterHandle begun = nullptr;
  DSLIDE_RETURN_IF_ERROR(Checked(XGBoosterCreate(&made, 1, &begun)));
  const std::unique_ptr<void, FreeBooster> booster(begun);
  for (const auto& [name, value] : {std::pair("objective", "binary:logistic"),
                                    {"base_score", "0.5"},
                                    {"nthread", "1"},
                                    {"tree_method", "hist"},
                                    {"grow_policy", "lossguide"},
                                    {"max_leaves", "15"},
                                    {"max_depth", "0"},
                                    {"eta", "0.12"},
                                    {"lambda", "1"},
                                    {"min_child_weight", "2"},
                                    {"seed", "1"},
                                    {"verbosity", "0"}}) {
    DSLIDE_RETURN_IF_ERROR(Checked(XGBoosterSetParam(begun, name, value)));
  }
  for (int tree = 0; tree < kTrees; ++tree) {
    DSLIDE_RETURN_IF_ERROR(Checked(XGBoosterUpdateOneIter(begun, tree, made)));
  }
  bst_ulong size = 0;
  const char* bytes = nullptr;
  DSLIDE_RETURN_IF_ERROR(
      Checked(XGBoosterSaveModelToBuffer(begun, R"({"format": "json"})", &size, &bytes)));
  std::vector<TreeNode> nodes;
  std::vector<uint32_t> roots;
  try {
    const auto model = nlohmann::json::parse(bytes, bytes + size);
    const auto& trees = model.at("learner").at("gradient_booster").at("model").at("trees");
    for (const auto& tree : trees) AddTree(tree, &nodes, &roots);
  } catch (const nlohmann::json::exception& error) {
    return Failed(fmt::format("XGBoost's model has another form: {}", error.what()));
  }
  return BoostedTrees::Of(std::move(nodes), std::move(roots), features);
}

}  // namespace dslide
