// Each sample against its own columns only (sharing = sample, SLIDE's way): its labels, its hash
// candidates and what was drawn for the batch.
//
// Still neuron-major: the lists are inverted. Column u lists the samples that use it, so each row
// is read once for all of them.
#pragma once

#include "server/model/scorer.h"

namespace dslide {

class ListScorer final : public Scorer {
 public:
  using Scorer::Scorer;

  void Score(OutputBatch* batch, ActiveReply* reply) override;
  std::vector<float> TailVariance(const OutputBatch&, const ActiveReply&, uint32_t) const override {
    return {};
  }
  void Gradient(OutputBatch* batch, const std::vector<float>& log_normaliser,
                const RowGradientSink& take, PartialSums* partial) override;

 private:
  // A sample's own column: a label (numbered as in label_columns) or a hash candidate.
  struct Own {
    uint32_t column;
    uint32_t sample;
    uint32_t label;  // kNoLabel for a candidate
    float weight;
  };
  static constexpr uint32_t kNoLabel = 0xffffffffu;

  void CollectOwn(const ActiveColumns& columns, size_t samples);
  void Invert(OutputBatch* batch, ActiveReply* reply);
  void Logits(OutputBatch* batch);
  void SoftmaxStatistics(OutputBatch* batch, ActiveReply* reply) const;
  void SigmoidDelta(OutputBatch* batch, ActiveReply* reply) const;
  void Delta(OutputBatch* batch, const std::vector<float>& log_normaliser) const;
  void MeasureMass(OutputBatch* batch) const;
  const float* Row(const ActiveColumns& columns, size_t u);

  // Scratch.
  std::vector<Own> own_;              // by sample
  std::vector<Own> repeated_;         // further occurrences of a label in its sample
  std::vector<uint32_t> own_counts_;  // [B]
  std::vector<size_t> next_;          // [U] first free entry of a column
  std::vector<uint32_t> last_;        // [U] the last sample that has the column, + 1
  std::vector<float> row_;            // [H]
  std::vector<float> gradient_;       // [H]
};

}  // namespace dslide
