// Every sample against every column: three matrix products over the B x U block.
//
// The passes go over the columns in chunks, each of one slot if the columns are ordered by slot:
// what a chunk contributes then does not depend on the slot's neighbours. A chunk's rows are
// gathered into contiguous memory and multiplied with all B activations while they are in the
// second-level cache; in the backward pass they are updated at once. The next chunk's rows are
// prefetched during the products. Each exponential is computed once, forward, against the chunk's
// own maximum for the sample; backward it only needs a factor.
//
// With model.products = bf16 a CPU with AMX makes the products in bf16. Others compute the logits
// in int8, a scale a row and a sample, and the backward pass in fp32.
//
// Backward most probabilities are tiny. Those below train.sparsify are rounded at random to 0 or to
// it, without bias, and the two products of the backward pass are made of the entries that are left
// (Wangni et al.: "Gradient Sparsification for Communication-Efficient Distributed Optimization",
// NeurIPS 2018). At most 1 / train.sparsify of a sample's probabilities are above the threshold,
// and about as many of the others are left, whatever U is. Whether an entry is left depends on the
// batch, the sample and the neuron only. AMX makes the whole products.
#pragma once

#include "common/math/bf16_gemm.h"
#include "common/math/int8/int8_scan.h"
#include "server/model/scorer.h"
#include "server/model/sparse_matrix.h"

namespace dslide {

class DenseScorer final : public Scorer {
 public:
  DenseScorer(const Config& config, OutputRows* rows, const Kernels& kernels, EngineStats* stats);

  void Score(OutputBatch* batch, ActiveReply* reply) override;
  std::vector<float> TailVariance(const OutputBatch& batch, const ActiveReply& reply,
                                  uint32_t samples) const override;
  void Gradient(OutputBatch* batch, const std::vector<float>& log_normaliser,
                const RowGradientSink& take, PartialSums* partial) override;

 private:
  // Columns [begin, begin + rows.size()) of a batch; its values are [B x rows.size()], row-major,
  // chunk after chunk.
  struct Chunk {
    size_t begin;
    std::span<const uint32_t> rows;
    std::span<const uint32_t> next;  // rows of the chunk after it
    float* values;
    float* shifts;  // [B]
    const float* weights;
  };
  template <typename Each>
  void ForEachChunk(OutputBatch* batch, const Each& each);

  void Logits(const Chunk& chunk, const OutputBatch& batch);
  void Products(const Chunk& chunk, const OutputBatch& batch, PartialSums* partial);
  void SoftmaxStatistics(const Chunk& chunk, const OutputBatch& batch, ActiveReply* reply) const;
  void SigmoidDelta(const Chunk& chunk, const OutputBatch& batch, ActiveReply* reply) const;
  void SoftmaxDelta(const Chunk& chunk, const OutputBatch& batch,
                    const std::vector<float>& log_normaliser);
  void MeasureMass(const Chunk& chunk, OutputBatch* batch) const;
  // Centroids: the logits of labels without their own samples, and what those add to dL/dh.
  void LeaveSamplesOut(const Chunk& chunk, OutputBatch* batch) const;
  void AddSamples(const OutputBatch& batch, PartialSums* partial) const;
  bool IsSparse(const OutputBatch& batch) const;
  void Sparsify(OutputBatch* batch, const std::vector<float>& log_normaliser);
  void SparseProducts(const OutputBatch& batch, const RowGradientSink& take, PartialSums* partial);
  void SubtractTargets(const Chunk& chunk, OutputBatch* batch);
  void HandOut(const Chunk& chunk, const RowGradientSink& take);

  const Bf16Gemm* bf16_;   // null: products in fp32
  const Int8Scan* int8_;   // null: logits like the other products
  const float threshold_;  // train.sparsify
  const bool centroids_;   // model.neurons

  Int8Panels queries_;  // a batch's activations, if logits are computed in int8

  // Scratch of one chunk.
  Int8Panels panels_;                     // its rows, if logits are computed in int8
  std::vector<float> weights_;            // [chunk x H] gathered, in fp32 or
  std::vector<uint16_t> narrow_weights_;  // in bf16
  std::vector<uint16_t> narrow_values_;   // [B x chunk] the chunk's values in bf16
  std::vector<float> gradient_;           // [chunk x H]
  std::vector<float> bias_;               // [chunk]
  std::vector<float> bias_gradient_;      // [chunk]

  // Scratch of a sparse backward pass: dL/dlogit by samples and by columns.
  SparseMatrix by_sample_;
  SparseMatrix by_column_;
  std::vector<uint32_t> noises_;  // [U]
  std::vector<uint32_t> picked_;  // rows of a sample's entries
};

}  // namespace dslide
