#include "common/rank/stored_reranker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "reranker_generated.h"

namespace dslide {
namespace {

template <typename T>
std::vector<T> ValuesOf(const flatbuffers::Vector<T>* values) {
  return values == nullptr ? std::vector<T>() : std::vector<T>(values->begin(), values->end());
}

}  // namespace

std::string RerankerBytes(const Reranker& reranker) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<uint32_t> hits, right;
  for (const NameTally& tally : reranker.facts().tallies()) {
    hits.push_back(tally.hits);
    right.push_back(tally.right);
  }
  std::vector<wire::TreeNode> nodes;
  for (const TreeNode& node : reranker.trees().nodes()) {
    nodes.emplace_back(node.feature, node.value, node.left, node.right, node.missing_left);
  }
  const auto stem = builder.CreateString(reranker.stem());
  const auto samples = builder.CreateVector(reranker.facts().samples());
  const auto stored_hits = builder.CreateVector(hits);
  const auto stored_right = builder.CreateVector(right);
  const auto stored_nodes = builder.CreateVectorOfStructs(nodes);
  const auto roots = builder.CreateVector(reranker.trees().roots());
  wire::FinishRerankerBuffer(
      builder, wire::CreateReranker(builder, kRerankerFormat, stem, samples, stored_hits,
                                    stored_right, stored_nodes, roots));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<std::shared_ptr<const Reranker>> ParseReranker(const std::string& bytes,
                                                      const Vocabulary& vocabulary,
                                                      const std::string& path,
                                                      const std::string& remedy) {
  const auto damaged = [&](const std::string& why) {
    return BadInput(fmt::format("{}: reranker: {}; {}", path, why, remedy));
  };
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (bytes.size() < 8 || !wire::VerifyRerankerBuffer(verifier)) {
    return damaged(fmt::format("damaged ({} bytes)", bytes.size()));
  }
  const wire::Reranker& stored = *wire::GetReranker(data);
  if (stored.format() != kRerankerFormat) {
    return damaged(
        fmt::format("format {}, this program reads format {}", stored.format(), kRerankerFormat));
  }
  std::vector<uint32_t> samples = ValuesOf(stored.label_samples());
  const std::vector<uint32_t> hits = ValuesOf(stored.name_hits());
  const std::vector<uint32_t> right = ValuesOf(stored.name_right());
  if (vocabulary.empty() || samples.size() != vocabulary.size() || hits.size() != samples.size() ||
      right.size() != samples.size()) {
    return damaged("is that of another model");
  }
  const std::string stem = stored.stem() == nullptr ? "" : stored.stem()->str();
  const auto& known = StemLanguages();
  if (stem != kNoStems && std::find(known.begin(), known.end(), stem) == known.end()) {
    return damaged(fmt::format("the stemmer's language {} is unknown here", stem));
  }
  std::vector<NameTally> tallies;
  for (size_t label = 0; label < samples.size(); ++label) {
    if (right[label] > hits[label]) return damaged("damaged counts");
    tallies.push_back({hits[label], right[label]});
  }
  std::vector<TreeNode> nodes;
  if (stored.nodes() != nullptr) {
    for (const wire::TreeNode* node : *stored.nodes()) {
      nodes.push_back(
          {node->feature(), node->value(), node->left(), node->right(), node->missing_left()});
    }
  }
  Result<BoostedTrees> trees =
      BoostedTrees::Of(std::move(nodes), ValuesOf(stored.roots()), kRankFeatures);
  if (!trees.ok()) return damaged(trees.error().message);
  return std::make_shared<const Reranker>(
      LabelFacts(std::move(samples), std::move(tallies), vocabulary), *std::move(trees), stem);
}

}  // namespace dslide
