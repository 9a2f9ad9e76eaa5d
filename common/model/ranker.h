// Ranks labels by a Model: h = relu(W_in x), or W_in x with model.activation = linear, through the
// dense layers if there are any; z_j = w_j .
// h + b_j, the k greatest without those of silent neurons (common/run/silence.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/math/int8/int8_scan.h"
#include "common/math/kernels.h"
#include "common/model/model.h"
#include "common/model/top_k.h"
#include "common/wire/messages.h"

namespace dslide {

// kExact: all rows as they are stored. kScan: all rows in int8. kIndex: in int8 the rows of the
// cells whose mean neuron has the greatest logits. After kScan and kIndex the best max(2k, 20)
// are scored with the rows as they are stored.
enum class ModelSearch { kExact, kScan, kIndex };
std::string_view SearchName(ModelSearch search);
std::optional<ModelSearch> ModelSearchByName(std::string_view name);

// Which labels a sample may have. `denied` ascends, and may have ids that are no labels.
struct LabelFilter {
  std::optional<std::vector<uint32_t>> allowed;  // only these; none: all
  std::vector<uint32_t> denied;
  // A filter of several samples, for what they have in common: what it denies is denied too, and
  // only what it allows is allowed where `allowed` is none. It has no `shared` of its own.
  const LabelFilter* shared = nullptr;

  const std::vector<uint32_t>* Allowed() const {  // null: all
    if (allowed) return &*allowed;
    return shared != nullptr && shared->allowed ? &*shared->allowed : nullptr;
  }
  bool Denies(uint32_t label) const {
    return std::ranges::binary_search(denied, label) ||
           (shared != nullptr && shared->Denies(label));
  }
};

struct RankRequest {
  uint32_t k = 5;
  ModelSearch search = ModelSearch::kScan;
  bool probabilities = false;
  std::span<const LabelFilter> filters = {};  // [B], or empty
  std::span<const uint32_t> own_k = {};       // [B] instead of `k`, or empty
  // A sample for which kIndex finds fewer labels than k, though there are more, is ranked by kScan.
  bool fills_up = true;
};

struct RankedLabels {
  TopKReply best;  // labels with their logits, best first
  // [like best.ids], if asked for. With softmax exp(z_j) / sum_i exp(z_i), with sigmoid
  // 1 / (1 + exp(-z_j)). Rows that were not scored are in the sum with their cells' mean logit. The
  // sum is at least that of the labels here: their probabilities add up to at most 1.
  std::vector<float> probabilities;

  // Appends one of this object's rows to *to.
  void AppendRow(size_t row, RankedLabels* to) const;
};

// One thread uses an object; any number of objects share a model.
class Ranker {
 public:
  Ranker(std::shared_ptr<const Model> model, const Kernels& kernels);
  Ranker(Ranker&&) noexcept;
  ~Ranker();

  const Model& model() const { return *model_; }

  // The activations of samples, [B x H], whose values are as in data files: train.normalize is
  // applied here. REQUIRES feature ids < D. Like Rank() it checks what it reads of a mapped file
  // before the first use: damage is an error (kBadInput), which names the file and the section. A
  // model in memory gives no error.
  Result<Matrix> Embed(const SparseRows& features) const;
  // REQUIRES hidden.cols == H, finite values, not negative with relu, every k > 0, allowed label
  // ids < N. kIndex without an index is kScan. A linear model is always searched exactly, as
  // far as its rows are stored so: the queries of int8 scans are not negative.
  Result<RankedLabels> Rank(const Matrix& hidden, const RankRequest& request);

 private:
  struct Sample;  // the best of one sample so far

  Result<RankedLabels> RankOnce(const Matrix& hidden, const RankRequest& request);
  uint32_t CountDenied(const LabelFilter& filter) const;  // without what is forgotten
  // The samples that have fewer labels than they could have.
  std::vector<uint32_t> Short(const RankedLabels& ranking, const RankRequest& request) const;
  Status FillUp(const std::vector<uint32_t>& samples, const Matrix& hidden,
                const RankRequest& request, RankedLabels* ranking);
  Status ScoreExactly(const Matrix& hidden);
  Status ScoreAll();
  Status ScoreCells(const Matrix& hidden);
  Status ScoreInt8(const Int8Panels& queries, uint32_t begin, uint32_t end,
                   std::span<const uint32_t> samples);
  void Take(uint32_t begin, uint32_t count, float* logits, Sample* sample) const;
  Result<float> Logit(uint32_t position, const float* hidden) const;

  std::shared_ptr<const Model> model_;
  const Kernels& kernels_;
  const Int8Scan& scan_ = BestInt8Scan();
  size_t panel_bytes_;
  // Of the request in progress.
  std::vector<Sample> samples_;
  bool sums_ = false;   // whether samples sum exponentials up
  bool cells_ = false;  // whether not all rows were searched, but those of some cells
  Int8Panels queries_;
  // Scratch.
  std::vector<float> logits_, wide_, cell_logits_;
  std::vector<std::pair<float, uint32_t>> order_;      // of a sample's cells
  std::vector<std::pair<uint32_t, uint32_t>> visits_;  // (cell, sample)
};

}  // namespace dslide
