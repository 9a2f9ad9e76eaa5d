#include "server/model/neuron_search.h"

#include <algorithm>
#include <limits>

#include "common/run/combine.h"
#include "common/run/silence.h"
#include "server/model/lsh/candidate_ranker.h"

namespace dslide {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kLeastRescored = 20;
constexpr uint32_t kCheckedSamples = 8;   // of a batch
constexpr uint32_t kLeastScanned = 2000;  // fewer rows cost less than what a scan rescores

bool Scannable(const Matrix& hidden) {
  return std::ranges::all_of(hidden.data, [](float h) { return h >= 0 && h < kInfinity; });
}

}  // namespace

// The best neurons of each sample so far, without silent ones and those that the request excludes.
class NeuronSearch::Best {
 public:
  Best(const TopKRequest& request, const Layer& layer)
      : request_(request), layer_(layer), heaps_(request.hidden.rows, TopKHeap(request.k)) {}

  uint32_t k() const { return request_.k; }
  // Whether the sample may have the neuron of this row. REQUIRES a row with a neuron.
  bool Allows(size_t sample, uint32_t row) const {
    if (IsSilent(layer_.bias(row))) return false;
    if (request_.excluded.rows() == 0) return true;
    const auto out = request_.excluded.Ids(sample);
    return std::find(out.begin(), out.end(), layer_.map().Global(row)) == out.end();
  }
  bool Accepts(size_t sample, float score) const { return heaps_[sample].Accepts(score); }
  void Offer(size_t sample, uint32_t row, float score) {
    if (!Accepts(sample, score)) return;
    const uint32_t id = layer_.map().Global(row);
    if (id != SlotMap::kNone && Allows(sample, row)) heaps_[sample].Offer(id, score);
  }

  TopKReply Reply() {
    TopKReply reply;
    for (TopKHeap& heap : heaps_) heap.AppendTo(&reply);
    return reply;
  }

 private:
  const TopKRequest& request_;
  const Layer& layer_;
  std::vector<TopKHeap> heaps_;
};

TopKReply NeuronSearch::Find(const TopKRequest& request, uint32_t lsh_limit) {
  if (request.search != Search::kExact || !ScansInInt8(request)) {
    return By(request.search, request, lsh_limit);
  }
  TopKReply found = By(Search::kScan, request, lsh_limit);
  return ScanSuffices(request, found) ? found : By(Search::kExact, request, lsh_limit);
}

bool NeuronSearch::ScansInInt8(const TopKRequest& request) const {
  if (request.search == Search::kScan) return true;
  return request.search == Search::kExact && request.recall > 0 &&
         rows_.layer.map().size() >= kLeastScanned;
}

TopKReply NeuronSearch::By(Search search, const TopKRequest& request, uint32_t lsh_limit) {
  Best best(request, rows_.layer);
  if (search == Search::kLsh) {
    Hashed(request.hidden, lsh_limit, &best);
  } else if (search == Search::kScan && Scannable(request.hidden)) {
    Scan(request.hidden, &best);
  } else {
    Exact(request.hidden, &best);
  }
  return best.Reply();
}

// Ranks a few samples, spread over the batch, exactly.
bool NeuronSearch::ScanSuffices(const TopKRequest& request, const TopKReply& found) {
  const uint32_t samples = request.hidden.rows;
  const uint32_t checked = std::min(samples, kCheckedSamples);
  TopKRequest part{Matrix(checked, request.hidden.cols), request.k, Search::kExact, {}};
  const auto sample_of = [&](uint32_t c) { return c * samples / checked; };
  for (uint32_t c = 0; c < checked; ++c) {
    std::copy_n(request.hidden.row(sample_of(c)), request.hidden.cols, part.hidden.row(c));
    if (request.excluded.rows() == 0) continue;
    const auto out = request.excluded.Ids(sample_of(c));
    part.excluded.ids.insert(part.excluded.ids.end(), out.begin(), out.end());
    part.excluded.EndRow();
  }
  const TopKReply best = By(Search::kExact, part, 0);
  size_t both = 0;
  for (uint32_t c = 0; c < checked; ++c) both += CountCommon(best.Ids(c), found.Ids(sample_of(c)));
  return static_cast<double>(both) >= double{request.recall} * static_cast<double>(best.ids.size());
}

// Logits of all samples against local rows [begin, end), [B x (end - begin)]; padding rows get
// -inf.
void NeuronSearch::ScoreRange(const Matrix& hidden, uint32_t begin, uint32_t end, float* logits) {
  const Layer& layer = rows_.layer;
  const size_t count = end - begin;
  std::vector<float> bias(count);
  for (size_t u = 0; u < count; ++u) {
    const auto row = static_cast<uint32_t>(begin + u);
    bias[u] = layer.map().Global(row) == SlotMap::kNone ? -kInfinity : layer.bias(row);
  }
  for (size_t i = 0; i < hidden.rows; ++i) std::copy(bias.begin(), bias.end(), logits + i * count);
  kernels_.gemm_nt(hidden.rows, count, layer.dim(), hidden.data.data(), layer.dim(),
                   layer.Range(begin, end, &wide_), layer.dim(), logits, count, true);
}

void NeuronSearch::Exact(const Matrix& hidden, Best* best) {
  constexpr uint32_t kRange = 1024;
  constexpr uint32_t kBlock = 64;
  const uint32_t rows = rows_.layer.map().rows();
  logits_.resize(std::max(logits_.size(), size_t{hidden.rows} * kRange));
  for (uint32_t begin = 0; begin < rows; begin += kRange) {
    const uint32_t end = std::min(rows, begin + kRange);
    ScoreRange(hidden, begin, end, logits_.data());
    for (size_t i = 0; i < hidden.rows; ++i) {
      const float* z = logits_.data() + i * (end - begin);
      for (uint32_t u = 0; u < end - begin; u += kBlock) {
        const uint32_t count = std::min(kBlock, end - begin - u);
        if (!best->Accepts(i, kernels_.max(count, z + u))) continue;  // nearly always
        for (uint32_t j = u; j < u + count; ++j) best->Offer(i, begin + j, z[j]);
      }
    }
  }
}

void NeuronSearch::Round(uint32_t begin, uint32_t end, uint32_t at, Int8Rows* out) {
  const Layer& layer = rows_.layer;
  out->panels.Set(at, end - begin, layer.Range(begin, end, &wide_), kernels_);
  float* bias = out->bias.data() + at;
  for (uint32_t row = begin; row < end; ++row) {
    *bias++ = layer.map().Global(row) == SlotMap::kNone ? -kInfinity : layer.bias(row);
  }
  while ((bias - out->bias.data()) % kInt8PanelRows != 0) *bias++ = -kInfinity;
}

void NeuronSearch::KeepRows() {
  constexpr uint32_t kRange = 1024;
  const uint32_t rows = rows_.layer.map().rows();
  if (kept_.bias.size() >= rows) return;
  kept_.Resize(rows);
  for (uint32_t begin = 0; begin < rows; begin += kRange) {
    Round(begin, std::min(rows, begin + kRange), begin, &kept_);
  }
}

void NeuronSearch::Scan(const Matrix& hidden, Best* best) {
  constexpr uint32_t kFirst = 2 * kInt8PanelRows;
  constexpr uint32_t kMost = 256;
  Int8Panels queries(kInt8PanelQueries, hidden.cols);
  queries.Resize(hidden.rows);
  queries.Set(0, hidden.rows, hidden.data.data(), kernels_);
  std::vector<float> thresholds(queries.size(), kInfinity);
  std::fill_n(thresholds.begin(), hidden.rows, std::numeric_limits<float>::lowest());
  std::vector<TopKHeap> candidates(hidden.rows, TopKHeap(std::max(2 * best->k(), kLeastRescored)));
  hits_.resize(std::max(hits_.size(), queries.size() * kMost));

  const bool keep = purpose_ == Purpose::kInference;
  Int8Rows fresh(hidden.cols);
  if (keep) {
    KeepRows();
  } else {
    fresh.Resize(kMost);
  }
  const uint32_t rows = rows_.layer.map().rows();
  // All rows of the first ranges are hits, so they are short.
  for (uint32_t begin = 0, end; begin < rows; begin = end) {
    end = std::min(rows, begin + std::clamp(begin, kFirst, kMost));
    if (!keep) Round(begin, end, 0, &fresh);
    const Int8Rows& from = keep ? kept_ : fresh;
    const uint32_t at = keep ? begin : 0;
    const size_t panel = at / kInt8PanelRows;
    const size_t count = scan_.find(
        queries.units(), queries.panels(), queries.values(0), queries.scales(0), thresholds.data(),
        (end - begin + kInt8PanelRows - 1) / kInt8PanelRows, from.panels.values(panel),
        from.panels.scales(panel), from.bias.data() + at, hits_.data());
    for (const Int8Hit& hit : std::span(hits_).first(count)) {
      const uint32_t row = begin + hit.row;
      if (!best->Allows(hit.query, row)) continue;
      candidates[hit.query].Offer(row, hit.score);
      thresholds[hit.query] = std::max(thresholds[hit.query], candidates[hit.query].least());
    }
  }
  Rescore(hidden, &candidates, best);
}

// Offers the candidates with their exact scores. The rows of the next sample are on their way from
// memory meanwhile.
void NeuronSearch::Rescore(const Matrix& hidden, std::vector<TopKHeap>* candidates,
                           Best* best) const {
  TopKReply found;
  for (TopKHeap& heap : *candidates) heap.AppendTo(&found);
  const auto prefetch = [&](size_t i) {
    for (uint32_t e = found.offsets[i]; e < found.offsets[i + 1]; ++e) {
      rows_.layer.PrefetchWeights(found.ids[e]);
    }
  };
  if (hidden.rows > 0) prefetch(0);
  for (uint32_t i = 0; i < hidden.rows; ++i) {
    if (i + 1 < hidden.rows) prefetch(i + 1);
    for (uint32_t e = found.offsets[i]; e < found.offsets[i + 1]; ++e) {
      const uint32_t row = found.ids[e];
      best->Offer(i, row, rows_.layer.bias(row) + rows_.layer.Dot(row, hidden.row(i)));
    }
  }
}

void NeuronSearch::Hashed(const Matrix& hidden, uint32_t limit, Best* best) {
  const Layer& layer = rows_.layer;
  CandidateRanker ranker(layer.map().rows());
  const HashTables& tables = rows_.index->tables().tables();
  std::vector<BucketCode> codes(hidden.rows * size_t{tables.size()});
  rows_.index->tables().functions().Codes(hidden.rows, hidden.data.data(), layer.dim(),
                                          codes.data());
  std::vector<uint32_t> picked;
  for (uint32_t i = 0; i < hidden.rows; ++i) {
    picked.clear();
    ranker.Rank(tables, {codes.data() + i * size_t{tables.size()}, tables.size()}, limit, &picked);
    for (const uint32_t row : picked) {
      best->Offer(i, row, layer.bias(row) + layer.Dot(row, hidden.row(i)));
    }
  }
}

}  // namespace dslide
