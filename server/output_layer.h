// The output neurons of one executor: active sets, logits, softmax or sigmoid gradients, updates,
// hash tables and exact or hashed top-k.
//
// A batch of B samples is scored against U columns (distinct neurons, see active_set.h): a dense
// B x U block. The passes below go over the columns in chunks, so that a chunk's rows are gathered
// once, used by all samples while they are in cache, and (in the backward pass) updated at once.
// Owned by one executor thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/net/messages.h"
#include "server/active_set.h"
#include "server/engine_stats.h"
#include "server/layer.h"
#include "server/lsh/hash_family.h"
#include "server/lsh/hash_tables.h"
#include "server/popular.h"

namespace dslide {

// What the output layer keeps of a batch between ActiveQuery and GradientPush.
struct OutputBatch {
  Matrix hidden;             // h, [B x H]
  ActiveColumns columns;     // U columns
  std::vector<float> block;  // [B x U] softmax: logits + log importance; sigmoid: dloss/dlogit
  std::vector<float> tail_weight;      // [B] importance of a negative for the sample
  std::vector<uint32_t> label_totals;  // [B]
};

class OutputLayer {
 public:
  OutputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
              const Kernels& kernels);

  Layer& layer() { return layer_; }
  const EngineStats& stats() const { return stats_; }
  const HashTables* tables() const { return tables_ ? &*tables_ : nullptr; }

  // Batches until every table follows its neurons' codes.
  uint32_t rehash_lag_batches() const {
    return (tables_->tables() + rebuilds_per_batch_ - 1) / rebuilds_per_batch_;
  }

  // Recomputes the codes of all neurons from their weights and rebuilds all tables.
  void RehashAll();
  // Puts stored codes back ([tables]); call FinishRestore() after the last row.
  void RestoreCodes(uint32_t row, std::span<const uint32_t> codes);
  void FinishRestore();

  // Chooses the active set and computes logits and local softmax statistics (or sigmoid losses).
  // REQUIRES query.hidden.cols == H, label ids < N.
  ActiveReply Query(ActiveQuery query, Random* random, OutputBatch* batch);

  // Given log sum_j exp(logit_ij) over all servers for each sample (unused by sigmoid), returns the
  // partial dL/dh [B x H] with L the mean loss over the batch, and updates the active neurons.
  Matrix Gradient(OutputBatch* batch, const std::vector<float>& log_normaliser,
                  float learning_rate);

  // The best k neurons a row of request.hidden by exact scan or among hash candidates.
  TopKReply TopK(const TopKRequest& request);

 private:
  void Gather(const uint32_t* rows, size_t count);
  void Score(OutputBatch* batch);
  void MaskAndWeigh(OutputBatch* batch, ActiveReply* reply);
  // Whether a sample is scored against its own hash part and the draws only.
  bool OwnOnly() const {
    return model_.sharing == Sharing::kSample && model_.active != ActiveSet::kAll;
  }
  void ColumnWeights(const OutputBatch& batch, size_t i, size_t begin, size_t end,
                     float* weight) const;
  void SoftmaxStatistics(const OutputBatch& batch, ActiveReply* reply) const;
  void SigmoidDelta(OutputBatch* batch, ActiveReply* reply) const;
  void SoftmaxDelta(const OutputBatch& batch, const std::vector<float>& log_normaliser, size_t i,
                    size_t begin, size_t end, float* delta) const;
  void UpdateChunk(const uint32_t* rows, size_t count, const float* gradients, const float* bias,
                   float learning_rate);
  std::vector<Probe> MeasureRecall(const OutputBatch& batch, uint32_t samples);
  void ScoreChunk(const Matrix& hidden, uint32_t begin, uint32_t end, float* logits);

  const Kernels& kernels_;
  ModelConfig model_;
  float label_smoothing_;
  Layer layer_;
  Optimizer optimizer_;
  std::unique_ptr<HashFunctions> hash_;
  std::optional<HashTables> tables_;
  ActiveSetBuilder builder_;
  PopularNeurons popular_;
  uint32_t rebuilds_per_batch_;
  EngineStats stats_;
  // Scratch of one chunk of columns.
  std::vector<float> rows_;      // [chunk x H] gathered weights
  std::vector<float> bias_;      // [chunk]
  std::vector<float> gradient_;  // [chunk x H]
  std::vector<float> delta_;     // [B x chunk]
  std::vector<uint32_t> codes_;
};

}  // namespace dslide
