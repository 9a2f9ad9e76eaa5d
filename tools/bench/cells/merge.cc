#include "tools/bench/cells/merge.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/math/kernels.h"

namespace dslide::cells {
namespace {

void Add(size_t n, float factor, const float* x, std::vector<float>* sum) {
  BestKernels().axpy(n, factor, x, sum->data());
}

void Average(size_t n, std::span<const RowPart> parts, std::vector<float>* merged) {
  float all = 0;
  for (const RowPart& part : parts) all += part.touches;
  for (const RowPart& part : parts) Add(n, part.touches / all, part.change, merged);
}

void ScaledSum(size_t n, float factor, std::span<const RowPart> parts, std::vector<float>* merged) {
  for (const RowPart& part : parts) Add(n, factor, part.change, merged);
}

float CappedFactor(float few, std::span<const RowPart> parts) {
  float touches = 0;
  for (const RowPart& part : parts) touches += part.touches;
  return std::clamp(few / touches, 1.0f / static_cast<float>(parts.size()), 1.0f);
}

// a (1 - a.b / (2 |a|^2)) + b (1 - a.b / (2 |b|^2))
std::vector<float> AdasumOfTwo(std::vector<float> a, const std::vector<float>& b) {
  const Kernels& kernels = BestKernels();
  const size_t n = a.size();
  const float ab = kernels.dot(n, a.data(), b.data());
  const float aa = kernels.dot(n, a.data(), a.data());
  const float bb = kernels.dot(n, b.data(), b.data());
  const float of_a = aa == 0 ? 1 : 1 - ab / (2 * aa);
  const float of_b = bb == 0 ? 1 : 1 - ab / (2 * bb);
  for (float& x : a) x *= of_a;
  kernels.axpy(n, of_b, b.data(), a.data());
  return a;
}

// Pairs of neighbours, then pairs of these.
std::vector<float> Adasum(size_t n, std::span<const RowPart> parts) {
  if (parts.size() == 1) return {parts[0].change, parts[0].change + n};
  const size_t half = (parts.size() + 1) / 2;
  return AdasumOfTwo(Adasum(n, parts.first(half)), Adasum(n, parts.subspan(half)));
}

}  // namespace

Result<MergeRule> ParseMergeRule(std::string_view name) {
  for (const auto& [known, rule] :
       {std::pair{"average", MergeRule::kAverage}, std::pair{"sum", MergeRule::kSum},
        std::pair{"root", MergeRule::kRoot}, std::pair{"adasum", MergeRule::kAdasum},
        std::pair{"capped", MergeRule::kCapped}}) {
    if (name == known) return rule;
  }
  return BadInput(fmt::format("--rule: {} is none of average, sum, root, adasum, capped", name));
}

void MergeParts(MergeRule rule, float few, size_t n, std::span<const RowPart> parts,
                std::vector<float>* merged) {
  DSLIDE_CHECK(!parts.empty());
  merged->assign(n, 0.0f);
  if (parts.size() == 1) return Add(n, 1, parts[0].change, merged);
  switch (rule) {
    case MergeRule::kAverage:
      return Average(n, parts, merged);
    case MergeRule::kSum:
      return ScaledSum(n, 1, parts, merged);
    case MergeRule::kRoot:
      return ScaledSum(n, 1 / std::sqrt(static_cast<float>(parts.size())), parts, merged);
    case MergeRule::kCapped:
      return ScaledSum(n, CappedFactor(few, parts), parts, merged);
    case MergeRule::kAdasum:
      *merged = Adasum(n, parts);
      return;
  }
}

void RoundToInt8(size_t n, float* x) {
  const float scale = BestKernels().max_abs(n, x) / 127;
  if (scale == 0) return;
  // Adding 1.5 * 2^23 leaves no bits behind the point: the compiler makes vectors of that.
  constexpr float kWhole = 0x1.8p23f;
  const float inverse = 1 / scale;
  for (size_t i = 0; i < n; ++i) x[i] = scale * ((x[i] * inverse + kWhole) - kWhole);
}

}  // namespace dslide::cells
