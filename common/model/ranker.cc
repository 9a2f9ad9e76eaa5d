#include "common/model/ranker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/config/value_scale.h"
#include "common/run/silence.h"

namespace dslide {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kLeastRescored = 20;
constexpr uint32_t kBlock = 256;    // positions that are scored at once
constexpr uint32_t kCompared = 64;  // logits whose maximum is compared before each of them

struct Name {
  ModelSearch search;
  std::string_view name;
};
constexpr std::array kNames = {Name{ModelSearch::kExact, "exact"}, Name{ModelSearch::kScan, "scan"},
                               Name{ModelSearch::kIndex, "index"}};

// Whether so many samples look into so many cells that reading each row once for all of them,
// without gathering samples, takes no longer.
bool ScanIsCheaper(const Model& model, uint32_t samples) {
  constexpr uint32_t kSamples = 16;
  constexpr uint32_t kShare = 8;  // one in so many cells
  return samples >= kSamples && model.info().probes > model.cells() / kShare;
}

uint32_t WantedOf(const RankRequest& request, size_t sample) {
  return request.own_k.empty() ? request.k : request.own_k[sample];
}

}  // namespace

void RankedLabels::AppendRow(size_t row, RankedLabels* to) const {
  const uint32_t begin = best.offsets[row], end = best.offsets[row + 1];
  for (uint32_t e = begin; e < end; ++e) {
    to->best.ids.push_back(best.ids[e]);
    to->best.scores.push_back(best.scores[e]);
    if (!probabilities.empty()) to->probabilities.push_back(probabilities[e]);
  }
  to->best.offsets.push_back(static_cast<uint32_t>(to->best.ids.size()));
}

std::string_view SearchName(ModelSearch search) {
  return std::ranges::find(kNames, search, &Name::search)->name;
}

std::optional<ModelSearch> ModelSearchByName(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, &Name::name);
  if (found == kNames.end()) return std::nullopt;
  return found->search;
}

struct Ranker::Sample {
  // sum exp(logit), kept as that of exp(logit - shift), which does not overflow.
  class ExpSum {
   public:
    void Add(float logit, double terms) {
      if (!(logit > -kInfinity)) return;
      if (logit > shift_) {
        sum_ *= std::exp(double{shift_} - logit);
        shift_ = logit;
      }
      sum_ += terms * std::exp(double{logit} - shift_);
    }
    // Another value for a logit that was added.
    void Replace(float logit, float better) {
      sum_ = std::max(0.0, sum_ - std::exp(double{logit} - shift_));
      Add(better, 1);
    }
    double Log() const { return shift_ + std::log(sum_); }

   private:
    float shift_ = -kInfinity;
    double sum_ = 0;
  };

  TopKHeap best;  // positions with their scores by the search
  const LabelFilter* filter;
  ExpSum sum = {};  // over what was scored

  bool Allows(uint32_t label) const {
    return label != kNoLabel && (filter == nullptr || !filter->Denies(label));
  }
  bool TakesAllowedOnly() const { return filter != nullptr && filter->Allowed() != nullptr; }
};

Ranker::Ranker(std::shared_ptr<const Model> model, const Kernels& kernels)
    : model_(std::move(model)),
      kernels_(kernels),
      panel_bytes_(Int8Units(model_->info().hidden()) * kInt8Group * kInt8PanelRows),
      queries_(kInt8PanelQueries, model_->info().hidden()) {}
Ranker::Ranker(Ranker&&) noexcept = default;
Ranker::~Ranker() = default;

Result<Matrix> Ranker::Embed(const SparseRows& features) const {
  const uint32_t dim = model_->info().input_width();
  const bool linear = IsLinear(model_->info().config.model);
  const float divisor = ValueDivisor(model_->info().config.train);
  Matrix hidden(features.rows(), dim);
  const std::span<const uint16_t> input = model_->arrays().input;
  std::vector<uint32_t> rows;
  std::vector<float> values;
  for (uint32_t i = 0; i < features.rows(); ++i) {
    rows.assign(features.Ids(i).begin(), features.Ids(i).end());
    values.assign(features.Values(i).begin(), features.Values(i).end());
    for (float& value : values) value /= divisor;
    rows.push_back(model_->info().features());  // the bias
    values.push_back(1.0f);
    for (const uint32_t row : rows) {
      DSLIDE_RETURN_IF_ERROR(model_->Check(input.subspan(size_t{row} * dim, dim)));
    }
    float* h = hidden.row(i);
    kernels_.weighted_sum_bf16(dim, rows.size(), rows.data(), values.data(), input.data(), dim, h);
    if (linear) continue;
    for (uint32_t d = 0; d < dim; ++d) h[d] = std::max(h[d], 0.0f);
  }
  if (model_->dense() != nullptr) return model_->dense()->Last(hidden);
  return hidden;
}

Result<RankedLabels> Ranker::Rank(const Matrix& hidden, const RankRequest& request) {
  Result<RankedLabels> ranking = RankOnce(hidden, request);
  DSLIDE_RETURN_IF_ERROR(ranking);
  if (cells_ && request.fills_up) {
    DSLIDE_RETURN_IF_ERROR(FillUp(Short(*ranking, request), hidden, request, &*ranking));
  }
  return ranking;
}

uint32_t Ranker::CountDenied(const LabelFilter& filter) const {
  const auto count = std::ranges::count_if(filter.denied, [&](uint32_t label) {
    return label < model_->info().labels() && !model_->IsForgotten(label) &&
           (filter.shared == nullptr || !filter.shared->Denies(label));
  });
  return static_cast<uint32_t>(count) +
         (filter.shared == nullptr ? 0 : CountDenied(*filter.shared));
}

std::vector<uint32_t> Ranker::Short(const RankedLabels& ranking, const RankRequest& request) const {
  std::vector<uint32_t> samples;
  for (uint32_t i = 0; i < samples_.size(); ++i) {
    const auto found = static_cast<uint32_t>(ranking.best.Ids(i).size());
    if (found >= std::min(WantedOf(request, i), model_->live_labels())) continue;
    if (samples_[i].TakesAllowedOnly()) continue;  // which are scored without a search
    const uint32_t denied = request.filters.empty() ? 0 : CountDenied(request.filters[i]);
    if (found + denied < model_->live_labels()) samples.push_back(i);
  }
  return samples;
}

Status Ranker::FillUp(const std::vector<uint32_t>& samples, const Matrix& hidden,
                      const RankRequest& request, RankedLabels* ranking) {
  if (samples.empty()) return {};
  Matrix queries(static_cast<uint32_t>(samples.size()), hidden.cols);
  std::vector<LabelFilter> filters;
  std::vector<uint32_t> own_k;
  for (size_t s = 0; s < samples.size(); ++s) {
    std::copy_n(hidden.row(samples[s]), hidden.cols, queries.row(s));
    if (!request.filters.empty()) filters.push_back(request.filters[samples[s]]);
    own_k.push_back(WantedOf(request, samples[s]));
  }
  RankRequest again = request;
  again.search = ModelSearch::kScan;
  again.filters = filters;
  again.own_k = own_k;
  const Result<RankedLabels> scanned = RankOnce(queries, again);
  DSLIDE_RETURN_IF_ERROR(scanned);
  RankedLabels filled;
  for (size_t i = 0, s = 0; i < hidden.rows; ++i) {
    const bool is_short = s < samples.size() && samples[s] == i;
    is_short ? scanned->AppendRow(s++, &filled) : ranking->AppendRow(i, &filled);
  }
  *ranking = std::move(filled);
  return {};
}

Result<RankedLabels> Ranker::RankOnce(const Matrix& hidden, const RankRequest& request) {
  DSLIDE_CHECK(hidden.cols == model_->info().hidden());
  const bool no_index = request.search == ModelSearch::kIndex && model_->info().probes == 0;
  const ModelSearch search = IsLinear(model_->info().config.model) ? ModelSearch::kExact
                             : no_index                            ? ModelSearch::kScan
                                                                   : request.search;
  const bool softmax = model_->info().config.model.loss == Loss::kSoftmax;
  sums_ = request.probabilities && softmax;
  const bool rescore = search != ModelSearch::kExact && !model_->arrays().weights.empty();
  samples_.clear();
  bool any = false;
  for (uint32_t i = 0; i < hidden.rows; ++i) {
    const LabelFilter* filter = request.filters.empty() ? nullptr : &request.filters[i];
    const uint32_t k = WantedOf(request, i);
    DSLIDE_CHECK(k > 0);
    samples_.push_back({TopKHeap(rescore ? std::max(2 * k, kLeastRescored) : k), filter});
    any = any || sums_ || !samples_.back().TakesAllowedOnly();
  }
  cells_ = any && search == ModelSearch::kIndex && !ScanIsCheaper(*model_, hidden.rows);
  if (any && search == ModelSearch::kExact) {
    DSLIDE_RETURN_IF_ERROR(ScoreExactly(hidden));
  } else if (any) {
    queries_.Resize(hidden.rows);
    queries_.Set(0, hidden.rows, hidden.data.data(), kernels_);
    DSLIDE_RETURN_IF_ERROR(cells_ ? ScoreCells(hidden) : ScoreAll());
  }

  RankedLabels ranking;
  for (uint32_t i = 0; i < hidden.rows; ++i) {
    Sample& sample = samples_[i];
    const float* h = hidden.row(i);
    TopKHeap best(WantedOf(request, i));
    Sample::ExpSum allowed;
    if (sample.TakesAllowedOnly()) {
      for (const uint32_t label : *sample.filter->Allowed()) {
        const uint32_t position = model_->PositionOf(label);
        if (!sample.Allows(label) || IsSilent(model_->arrays().bias[position])) continue;
        const Result<float> logit = Logit(position, h);
        DSLIDE_RETURN_IF_ERROR(logit);
        best.Offer(label, *logit);
        if (sums_) allowed.Add(*logit, 1);
      }
    } else {
      TopKReply found;
      sample.best.AppendTo(&found);
      for (size_t e = 0; e < found.ids.size(); ++e) {
        const uint32_t position = found.ids[e];
        const Result<float> logit = rescore ? Logit(position, h) : found.scores[e];
        DSLIDE_RETURN_IF_ERROR(logit);
        best.Offer(model_->arrays().label_of[position], *logit);
        if (sums_ && rescore) sample.sum.Replace(found.scores[e], *logit);
      }
    }
    const size_t first = ranking.best.scores.size();
    best.AppendTo(&ranking.best);
    if (!request.probabilities) continue;
    // The search may have scored what is allowed lower, or not at all.
    const double total = std::max(sample.sum.Log(), allowed.Log());
    for (size_t e = first; e < ranking.best.scores.size(); ++e) {
      const double z = ranking.best.scores[e];
      ranking.probabilities.push_back(
          static_cast<float>(softmax ? std::exp(z - total) : 1 / (1 + std::exp(-z))));
    }
  }
  return ranking;
}

// The logit by the row as it is stored.
Result<float> Ranker::Logit(uint32_t position, const float* hidden) const {
  const ModelArrays& a = model_->arrays();
  const uint32_t dim = model_->info().hidden();
  if (!a.weights.empty()) {
    const std::span<const uint16_t> row = a.weights.subspan(size_t{position} * dim, dim);
    DSLIDE_RETURN_IF_ERROR(model_->Check(row));
    return a.bias[position] + kernels_.dot_bf16(dim, hidden, row.data());
  }
  const std::span<const int8_t> panel =
      a.rows.subspan(position / kInt8PanelRows * panel_bytes_, panel_bytes_);
  DSLIDE_RETURN_IF_ERROR(model_->Check(panel));
  const size_t lane = position % kInt8PanelRows;
  float sum = 0;
  for (uint32_t d = 0; d < dim; ++d) {
    const size_t at = (d / kInt8Group * kInt8PanelRows + lane) * kInt8Group + d % kInt8Group;
    sum += hidden[d] * static_cast<float>(panel[at]);
  }
  return a.bias[position] + a.row_scales[position] * sum;
}

// The logits of positions [begin, begin + count) for one sample, which are overwritten.
void Ranker::Take(uint32_t begin, uint32_t count, float* logits, Sample* sample) const {
  const std::span<const uint32_t> label_of = model_->arrays().label_of;
  const std::span<const float> bias = model_->arrays().bias;
  float most = -kInfinity;
  for (uint32_t u = 0; u < count; u += kCompared) {
    const uint32_t compared = std::min(kCompared, count - u);
    const float high = kernels_.max(compared, logits + u);
    most = std::max(most, high);
    if (sample->TakesAllowedOnly() || !sample->best.Accepts(high)) continue;  // nearly always
    for (uint32_t j = u; j < u + compared; ++j) {
      if (!sample->best.Accepts(logits[j]) || IsSilent(bias[begin + j])) continue;
      if (sample->Allows(label_of[begin + j])) sample->best.Offer(begin + j, logits[j]);
    }
  }
  if (sums_ && most > -kInfinity) {
    sample->sum.Add(most, kernels_.exp_sum(count, most, logits));
  }
}

// The best neurons of all, in fp32 products.
Status Ranker::ScoreExactly(const Matrix& hidden) {
  const ModelArrays& a = model_->arrays();
  if (a.weights.empty()) {
    for (uint32_t i = 0; i < hidden.rows; ++i) {
      for (uint32_t p = 0; p < model_->positions(); ++p) {
        Result<float> logit = a.label_of[p] == kNoLabel ? -kInfinity : Logit(p, hidden.row(i));
        DSLIDE_RETURN_IF_ERROR(logit);
        Take(p, 1, &*logit, &samples_[i]);
      }
    }
    return {};
  }
  const uint32_t dim = hidden.cols;
  wide_.resize(size_t{kBlock} * dim);
  logits_.resize(size_t{hidden.rows} * kBlock);
  for (uint32_t begin = 0; begin < model_->positions(); begin += kBlock) {
    const uint32_t count = std::min(kBlock, model_->positions() - begin);
    const std::span<const uint16_t> rows =
        a.weights.subspan(size_t{begin} * dim, size_t{count} * dim);
    DSLIDE_RETURN_IF_ERROR(model_->Check(rows));
    kernels_.from_bf16(rows.size(), rows.data(), wide_.data());
    for (uint32_t i = 0; i < hidden.rows; ++i) {
      std::copy_n(a.bias.data() + begin, count, logits_.data() + size_t{i} * kBlock);
    }
    kernels_.gemm_nt(hidden.rows, count, dim, hidden.data.data(), dim, wide_.data(), dim,
                     logits_.data(), kBlock, true);
    for (uint32_t i = 0; i < hidden.rows; ++i) {
      Take(begin, count, logits_.data() + size_t{i} * kBlock, &samples_[i]);
    }
  }
  return {};
}

// Positions [begin, end), which are whole panels, for queries that are those of `samples`.
Status Ranker::ScoreInt8(const Int8Panels& queries, uint32_t begin, uint32_t end,
                         std::span<const uint32_t> samples) {
  const ModelArrays& a = model_->arrays();
  logits_.resize(std::max(logits_.size(), samples.size() * kBlock));
  for (uint32_t from = begin; from < end; from += kBlock) {
    const uint32_t count = std::min(kBlock, end - from);
    const std::span<const int8_t> rows =
        a.rows.subspan(from / kInt8PanelRows * panel_bytes_, count / kInt8PanelRows * panel_bytes_);
    DSLIDE_RETURN_IF_ERROR(model_->Check(rows));
    scan_.score(queries.units(), samples.size(), queries.values(0), queries.scales(0), count,
                rows.data(), a.row_scales.data() + from, a.bias.data() + from, logits_.data(),
                kBlock);
    for (size_t q = 0; q < samples.size(); ++q) {
      Take(from, count, logits_.data() + q * kBlock, &samples_[samples[q]]);
    }
  }
  return {};
}

Status Ranker::ScoreAll() {
  std::vector<uint32_t> samples(samples_.size());
  for (uint32_t i = 0; i < samples.size(); ++i) samples[i] = i;
  return ScoreInt8(queries_, 0, model_->positions(), samples);
}

Status Ranker::ScoreCells(const Matrix& hidden) {
  const uint32_t cells = model_->cells();
  const uint32_t probes = std::min(model_->info().probes, cells);
  cell_logits_.resize(size_t{hidden.rows} * cells);
  const Int8Panels& rows = model_->cell_rows();
  scan_.score(queries_.units(), hidden.rows, queries_.values(0), queries_.scales(0), cells,
              rows.values(0), rows.scales(0), model_->cell_biases().data(), cell_logits_.data(),
              cells);
  visits_.clear();
  for (uint32_t i = 0; i < hidden.rows; ++i) {
    const float* z = cell_logits_.data() + size_t{i} * cells;
    order_.resize(cells);
    // A damaged model may have cells that are no numbers; those cannot be ordered.
    for (uint32_t c = 0; c < cells; ++c) order_[c] = {std::isnan(z[c]) ? -kInfinity : z[c], c};
    std::nth_element(order_.begin(), order_.begin() + (probes - 1), order_.end(), std::greater<>());
    for (uint32_t n = 0; n < probes; ++n) visits_.push_back({order_[n].second, i});
    if (!sums_) continue;
    for (uint32_t n = probes; n < cells; ++n) {
      const uint32_t c = order_[n].second;
      samples_[i].sum.Add(order_[n].first, model_->CellEnd(c) - model_->CellBegin(c));
    }
  }
  // A cell is read once for all the samples that look into it.
  std::ranges::sort(visits_);
  Int8Panels queries(kInt8PanelQueries, hidden.cols);
  std::vector<uint32_t> samples;
  for (size_t at = 0; at < visits_.size(); at += samples.size()) {
    const uint32_t cell = visits_[at].first;
    samples.clear();
    for (size_t v = at; v < visits_.size() && visits_[v].first == cell; ++v) {
      samples.push_back(visits_[v].second);
    }
    const bool all = samples.size() == hidden.rows;
    if (!all) queries.Gather(queries_, samples);
    DSLIDE_RETURN_IF_ERROR(ScoreInt8(all ? queries_ : queries, model_->CellBegin(cell),
                                     model_->CellEnd(cell), samples));
  }
  return {};
}

}  // namespace dslide
