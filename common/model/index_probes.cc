#include "common/model/index_probes.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/math/kernels.h"
#include "common/model/ranker.h"
#include "common/run/combine.h"

namespace dslide {
namespace {

constexpr uint32_t kFewest = 4;  // probes that are tried

// The share of the exactly best neurons that a search with so many probes finds, for one sample at
// a time: of many at once the ranker may read all rows, which finds more.
double Recall(const std::shared_ptr<const Model>& model, const Matrix& hidden,
              const TopKReply& exact, uint32_t probes) {
  Ranker ranker(model->WithProbes(probes, 0), BestKernels());
  RankRequest request;
  request.k = kIndexRecallAt;
  request.search = ModelSearch::kIndex;
  request.fills_up = false;
  Matrix one(1, hidden.cols);
  size_t both = 0;
  for (uint32_t i = 0; i < hidden.rows; ++i) {
    std::copy_n(hidden.row(i), hidden.cols, one.row(0));
    both += CountCommon(exact.Ids(i), ranker.Rank(one, request)->best.Ids(0));
  }
  return static_cast<double>(both) / static_cast<double>(exact.ids.size());
}

}  // namespace

std::string IndexTrial::Text() const {
  const ModelInfo& info = model->info();
  if (IsLinear(info.config.model)) return "index: none, a linear model is searched exactly";
  if (info.probes == 0) return "index: none, a search reads all rows in 8 bits";
  return fmt::format("index: {} of {} cells, {:.1f} % of the rows, finds {:.1f} % of the best {}",
                     info.probes, model->cells(), 100 * rows,
                     100 * static_cast<double>(info.index_recall), kIndexRecallAt);
}

IndexTrial ChooseProbes(std::shared_ptr<const Model> model, const SparseRows& samples) {
  IndexTrial trial{model->WithProbes(0, 0)};
  const bool linear = IsLinear(model->info().config.model);
  if (samples.rows() == 0 || model->cells() < 2 * kFewest || linear) return trial;
  Ranker ranker(model, BestKernels());
  const Matrix hidden = *ranker.Embed(samples);
  RankRequest request;
  request.k = kIndexRecallAt;
  const TopKReply exact = ranker.Rank(hidden, request)->best;
  if (exact.ids.empty()) return trial;  // all neurons are silent
  const uint32_t most = model->cells() / 2;
  uint32_t probes = kFewest;
  double recall = Recall(model, hidden, exact, probes);
  // Upwards by a quarter: recall grows with the probes.
  while (recall < kWantedIndexRecall && probes < most) {
    probes = std::min(most, probes + std::max(1u, probes / 4));
    recall = Recall(model, hidden, exact, probes);
  }
  if (recall < kWantedIndexRecall) return trial;
  trial.model = model->WithProbes(probes, static_cast<float>(recall));
  trial.rows = static_cast<double>(probes) / model->cells();
  return trial;
}

}  // namespace dslide
