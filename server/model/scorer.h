// Logits, losses and gradients of a batch over its active columns: where training spends its time.
//
// Two scorers: every sample against every column (sharing = batch, active = all: dense_scorer.h),
// and each sample against its own columns (sharing = sample: list_scorer.h). Both are
// neuron-major: a row is read once forward, and read and written once backward, while the B
// activations stay in cache.
// Owned by one executor thread.
#pragma once

#include <vector>

#include "common/math/kernels.h"
#include "common/wire/messages.h"
#include "server/model/active_set.h"
#include "server/model/centroids.h"
#include "server/model/engine_stats.h"
#include "server/model/gradient_sums.h"
#include "server/model/output_rows.h"
#include "server/model/partial_sums.h"

namespace dslide {

constexpr float kNoMass = -1.0f;

// The output layer's state of a batch between ActiveQuery and GradientPush.
struct OutputBatch {
  Matrix hidden;                       // h, [B x H]
  std::vector<uint16_t> narrow;        // h in bf16, if products are computed on AMX
  std::vector<uint32_t> label_totals;  // [B] labels of the sample on all servers
  std::vector<float> sample_weights;   // [B] of the samples' losses; empty: all 1
  ActiveColumns columns;               // U columns
  uint64_t seed = 0;                   // for all executors the same

  // One value for each scored (sample, column); the order is the scorer's. After Score(), softmax:
  // exp(logit - shift); sigmoid: dloss/dlogit as if no column were a label of the sample.
  std::vector<float> values;
  std::vector<float> shifts;   // subtracted from logits; the scorer's order
  std::vector<size_t> chunks;  // dense scorer only: ends of the columns that are scored together
  std::vector<float> weights;  // how many neurons a column (or entry) stands for
  // After Score(), with model.neurons = centroids: of columns.label_columns.
  std::vector<LabelLogit> label_logits;
  // After Gradient(), if neurons keep a mass: mean probability of a column over the samples of
  // which it is no label, or kNoMass if not all samples were scored against it. [U], or none if no
  // sample has a weight. Scorers give the sum of weight times probability over B; the output layer
  // makes the weighted mean of it.
  std::vector<float> masses;
  // List scorer only: entries of column u are [offsets[u], offsets[u+1]).
  std::vector<size_t> offsets;
  std::vector<uint32_t> samples;      // [entries]
  std::vector<size_t> label_entries;  // of columns.label_columns

  float WeightOf(size_t sample) const {
    return sample_weights.empty() ? 1.0f : sample_weights[sample];
  }
};

class Scorer {
 public:
  Scorer(const Config& config, OutputRows* rows, const Kernels& kernels, EngineStats* stats)
      : model_(config.model),
        label_smoothing_(LabelSmoothing(config.train)),
        synchronous_(IsSynchronous(config.train)),
        rows_(*rows),
        kernels_(kernels),
        stats_(*stats) {}
  virtual ~Scorer() = default;

  // Fills the reply's local softmax statistics (max, sum_exp, target_logit, in synchronous training
  // exp_sums), or the losses of sigmoid, and `active`. REQUIRES hidden, label_totals and columns of
  // *batch.
  virtual void Score(OutputBatch* batch, ActiveReply* reply) = 0;

  // The relative variance of `sum_exp` over the draw of the active set, of each of the first
  // samples (Horvitz and Thompson, 1952), estimated from the neurons that were drawn. Empty if the
  // scorer cannot tell, or there is no sum. REQUIRES Score() before.
  virtual std::vector<float> TailVariance(const OutputBatch& batch, const ActiveReply& reply,
                                          uint32_t samples) const = 0;

  // Given log sum_j exp(logit_ij) over all servers for each sample (unused by sigmoid), adds the
  // partial dL/dh to *partial, part by part, with L the sum of weight times loss over the batch's
  // samples, over B, and calls take() once with the gradient of each active row that has one, while
  // the row is in cache; `take` may update the row. Softmax: a sample without labels has no target
  // distribution and no gradient.
  virtual void Gradient(OutputBatch* batch, const std::vector<float>& log_normaliser,
                        const RowGradientSink& take, PartialSums* partial) = 0;

 protected:
  // Binary cross-entropy of n logits with target 0, each counted weights[i] times: returns the sum
  // and replaces the logits by `scale` * dloss/dlogit.
  static double SigmoidLoss(size_t n, const float* weights, float scale, float* logits);

  // The factor f in weight * softmax(logit) / B = exp(logit - shift) * f.
  static float SoftmaxFactor(const OutputBatch& batch, size_t sample, float shift,
                             float log_normaliser);

  // What each label of the sample subtracts from its dL/dlogit, and with label smoothing every
  // neuron besides (Szegedy et al.: "Rethinking the Inception Architecture for Computer Vision",
  // CVPR 2016, section 7).
  float Target(const OutputBatch& batch, size_t sample) const;
  float SmoothTarget(const OutputBatch& batch, size_t sample) const;

  const ModelConfig model_;
  const float label_smoothing_;
  const bool synchronous_;
  OutputRows& rows_;
  const Kernels& kernels_;
  EngineStats& stats_;
};

}  // namespace dslide
