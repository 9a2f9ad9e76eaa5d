// The output neurons of one executor: active sets, training through a scorer (scorer.h), and exact
// or hashed top-k. Owned by one executor thread.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "common/wire/messages.h"
#include "server/model/active_set.h"
#include "server/model/engine_stats.h"
#include "server/model/neuron_search.h"
#include "server/model/output_rows.h"
#include "server/model/sampling/importance.h"
#include "server/model/scorer.h"

namespace dslide {

class OutputLayer {
 public:
  OutputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
              const Kernels& kernels);

  Layer& layer() { return rows_.layer; }
  const Layer& layer() const { return rows_.layer; }
  const EngineStats& stats() const { return stats_; }
  // Null without an index (HasNeuronIndex).
  NeuronIndex* index() { return rows_.index ? &*rows_.index : nullptr; }
  const NeuronIndex* index() const { return rows_.index ? &*rows_.index : nullptr; }
  uint64_t MemoryBytes() const;
  // The part of MemoryBytes() that one neuron takes beside its row.
  uint64_t IndexRowBytes() const;

  // Call when the slots of layer().map() changed.
  void FollowMap();
  // The model has more labels. The neurons of new and recycled labels begin as a typical one of
  // their slot, or are drawn where none has learned; neurons of removed labels fall silent.
  // REQUIRES no index and no snapshot in progress.
  void Resize(const Config& config, const ModelShape& shape);

  // Chooses the active set and computes logits and local softmax statistics (or sigmoid losses).
  // Does not change the model.
  // REQUIRES query.hidden.cols == H, label ids < N.
  ActiveReply Query(const ActiveQuery& query, const Draws& draws, OutputBatch* batch);

  // Has the rows read that such a Query() will need, if they are in a file: labels and what is
  // drawn by mass. REQUIRES label ids < N.
  void ReadAhead(const SparseRows& labels, const Draws& draws);

  // Calls take(row) for each bucket entry that the last Query() read for a sample. REQUIRES an
  // index.
  template <typename Take>
  void ForEachRetrieved(uint32_t sample, const Take& take) const {
    const HashTables& tables = rows_.index->tables().tables();
    for (uint32_t t = 0; t < tables.size(); ++t) {
      for (const uint32_t row : tables.Bucket(t, codes_[sample * tables.size() + t])) take(row);
    }
  }

  // Given log sum_j exp(logit_ij) over all servers for each sample (unused by sigmoid), returns the
  // partial dL/dh [B x H] with L the sum of weight times loss over the batch's samples, over B, and
  // calls take() with the gradient of each active neuron.
  PartialSum Gradient(OutputBatch* batch, const std::vector<float>& log_normaliser,
                      const RowGradientSink& take);

  // Takes what Gradient() gave of a neuron: one optimiser step.
  RowGradientSink Updates(float learning_rate);

  // In place of Gradient() and Updates() where samples make the neurons (LearnsIn). Calls
  // take(row, weight / B times the unit vector of h, 1 / B) for each label of each sample; dL/dh is
  // 0. SampleUpdates() takes that, with sums over B = `samples`, in a pass (Layer::AddToCentroid).
  PartialSum ForEachSampleOfLabel(const OutputBatch& batch, const RowGradientSink& take) const;
  RowGradientSink SampleUpdates(uint64_t samples, uint32_t pass);

  // What a batch's samples gave its neurons (OutputBatch::masses), with or without an Update().
  void ObserveMass(uint32_t row, float mass) {
    if (mass == kNoMass) return;
    rows_.layer.changed().BeforeChange(row);
    rows_.layer.ObserveMass(row, mass);
    importance_->FollowMass(row);
  }
  // Prefetches what ObserveMass() touches.
  void PrefetchMass(uint32_t row) const {
    if (!importance_) return;
    rows_.layer.PrefetchMass(row);
    importance_->Prefetch(row);
  }
  // Call after rows were loaded.
  void FollowLoad() {
    if (importance_) importance_->FollowLoad();
  }

  // Upkeep after a batch: does the index's share of it.
  void FollowUpdates();

  // The best k neurons for each row of request.hidden. REQUIRES CanSearch(request.search).
  TopKReply TopK(const TopKRequest& request);
  bool CanSearch(Search search) const { return ScoresAllNeurons(search) || rows_.index; }
  // Whether TopK() scans int8 rows first.
  bool ScansInInt8(const TopKRequest& request) const { return search_.ScansInInt8(request); }

 private:
  bool OwnOnly() const {
    return model_.sharing == Sharing::kSample && model_.active != ActiveSet::kAll;
  }
  static void WeighMasses(OutputBatch* batch);
  std::vector<Probe> MeasureRecall(const OutputBatch& batch, uint32_t samples);

  const Kernels& kernels_;
  ModelConfig model_;
  bool synchronous_;
  OutputRows rows_;
  NeuronSearch search_;
  ActiveSetBuilder builder_;
  std::optional<ImportanceBuckets> importance_;  // with active = mass or lsh, while training
  EngineStats stats_;
  std::unique_ptr<Scorer> scorer_;
  std::vector<BucketCode> codes_;  // scratch: codes of the batch's activations
  std::vector<uint32_t> ahead_;    // scratch of ReadAhead()
  std::vector<ImportanceBuckets::Draw> drawn_ahead_;
};

}  // namespace dslide
