#include "server/model/scorer.h"

#include <algorithm>
#include <cmath>

namespace dslide {
namespace {

// A numerically safe log(1 + exp(x)).
double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

}  // namespace

double Scorer::SigmoidLoss(size_t n, const float* weights, float scale, float* logits) {
  double loss = 0;
  for (size_t i = 0; i < n; ++i) {
    loss += double{weights[i]} * Softplus(double{logits[i]});
    logits[i] = scale * weights[i] / (1.0f + std::exp(-logits[i]));
  }
  return loss;
}

float Scorer::SoftmaxFactor(const OutputBatch& batch, size_t sample, float shift,
                            float log_normaliser) {
  if (batch.label_totals[sample] == 0) return 0.0f;
  // Above 0 only by rounding, or if a peer sent an invalid normaliser.
  const float exponent = std::min(shift - log_normaliser, 0.0f);
  return std::exp(exponent) / static_cast<float>(batch.hidden.rows) * batch.WeightOf(sample);
}

float Scorer::Target(const OutputBatch& batch, size_t sample) const {
  const float scale = batch.WeightOf(sample) / static_cast<float>(batch.hidden.rows);
  if (model_.loss == Loss::kSigmoid) return scale;
  if (batch.label_totals[sample] == 0) return 0.0f;
  return scale * (1.0f - label_smoothing_) / static_cast<float>(batch.label_totals[sample]);
}

float Scorer::SmoothTarget(const OutputBatch& batch, size_t sample) const {
  if (model_.loss == Loss::kSigmoid || batch.label_totals[sample] == 0) return 0.0f;
  return label_smoothing_ /
         (static_cast<float>(batch.hidden.rows) * static_cast<float>(rows_.layer.map().total())) *
         batch.WeightOf(sample);
}

}  // namespace dslide
