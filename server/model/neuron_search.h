// The best neurons of one executor for activations h: z_j = w_j . h + b_j, in three ways.
// Silent ones (common/run/silence.h) are none of them.
//
//   kExact   all rows in fp32.
//   kScan    all rows in int8 (common/math/int8/int8_scan.h), then the best max(2k, 20) of a sample
//            exactly. An executor for inference keeps the int8 rows, [N x H] bytes, from the first
//            scan on; while training goes on they are made anew for every request.
//   kLsh     the rows that the index returns.
//
// The scores of a reply are exact in all of them; what a way may lack are rows. kExact with a
// wanted recall below 1 is a scan that is checked: if some samples' best k lack more than that
// share, the request is answered exactly.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <vector>

#include "common/math/int8/int8_scan.h"
#include "common/model/top_k.h"
#include "common/wire/messages.h"
#include "server/model/output_rows.h"

namespace dslide {

class NeuronSearch {
 public:
  // All must outlive this. With Purpose::kInference the rows must not change after the first scan.
  NeuronSearch(const OutputRows& rows, Purpose purpose, const Kernels& kernels)
      : rows_(rows), purpose_(purpose), kernels_(kernels) {}

  // The best k neurons for each row of request.hidden, at most `lsh_limit` candidates of a sample
  // scored by kLsh. REQUIRES an index for kLsh. Activations that are negative or not finite are
  // ranked exactly instead of by a scan.
  TopKReply Find(const TopKRequest& request, uint32_t lsh_limit);

  // Whether Find() scans int8 rows: by kScan, or by kExact with a wanted recall and enough rows.
  bool ScansInInt8(const TopKRequest& request) const;

  // Of the int8 rows that are kept.
  uint64_t MemoryBytes() const { return kept_.MemoryBytes(); }

 private:
  // Rows in int8 with their biases; -infinity where there is no neuron.
  struct Int8Rows {
    Int8Panels panels;
    std::vector<float> bias;

    explicit Int8Rows(size_t dim) : panels(kInt8PanelRows, dim) {}
    void Resize(size_t rows) {
      panels.Resize(rows);
      bias.resize(panels.size());
    }
    uint64_t MemoryBytes() const { return panels.MemoryBytes() + bias.size() * sizeof(float); }
  };
  class Best;

  bool ScanSuffices(const TopKRequest& request, const TopKReply& found);
  TopKReply By(Search search, const TopKRequest& request, uint32_t lsh_limit);
  void Exact(const Matrix& hidden, Best* best);
  void Scan(const Matrix& hidden, Best* best);
  void Rescore(const Matrix& hidden, std::vector<TopKHeap>* candidates, Best* best) const;
  void Hashed(const Matrix& hidden, uint32_t limit, Best* best);

  void ScoreRange(const Matrix& hidden, uint32_t begin, uint32_t end, float* logits);
  // Rounds rows [begin, end) of the layer into those of `out` from `at` on.
  void Round(uint32_t begin, uint32_t end, uint32_t at, Int8Rows* out);
  void KeepRows();

  const OutputRows& rows_;
  Purpose purpose_;
  const Kernels& kernels_;
  const Int8Scan& scan_ = BestInt8Scan();
  Int8Rows kept_{rows_.layer.dim()};
  // Scratch: a range's weights, if they are bf16 in memory, its logits, its hits.
  std::vector<float> wide_;
  std::vector<float> logits_;
  std::vector<Int8Hit> hits_;
};

}  // namespace dslide
