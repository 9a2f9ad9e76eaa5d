#include "server/model/dense_scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/base/random.h"
#include "common/math/prefetch.h"
#include "common/run/combine.h"
#include "server/model/centroids.h"

namespace dslide {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr size_t kChunk = 256;  // columns: 128 KB of rows at H = 128

// At most kChunk columns each, of one slot if columns are ordered by slot.
std::vector<size_t> ChunkEnds(const ActiveColumns& columns) {
  const std::vector<uint32_t> all = {static_cast<uint32_t>(columns.rows.size())};
  std::vector<size_t> ends;
  size_t begin = 0;
  for (const uint32_t end : columns.slot_ends.empty() ? all : columns.slot_ends) {
    for (; begin < end; begin = ends.back()) ends.push_back(std::min<size_t>(begin + kChunk, end));
  }
  return ends;
}

// Null: not in int8, whose queries are not negative.
const Int8Scan* LogitsInInt8(const ModelConfig& model) {
  if (model.products != Products::kBf16 || BestBf16Gemm() != nullptr || IsLinear(model)) {
    return nullptr;
  }
  const Int8Scan& best = BestInt8Scan();
  return best.name == "scalar" ? nullptr : &best;
}

// dL/dlogit of a label becomes what its neuron adds to dL/dh, and label->sample what the sample
// adds.
void MultiplyBy(float* delta, LabelLogit* label) {
  label->sample *= *delta;
  *delta *= label->neuron;
}

}  // namespace

DenseScorer::DenseScorer(const Config& config, OutputRows* rows, const Kernels& kernels,
                         EngineStats* stats)
    : Scorer(config, rows, kernels, stats),
      bf16_(config.model.products == Products::kBf16 ? BestBf16Gemm() : nullptr),
      int8_(LogitsInInt8(config.model)),
      threshold_(config.train.sparsify),
      centroids_(config.model.neurons == Neurons::kCentroids),
      queries_(kInt8PanelQueries, OutputWidth(config.model)),
      panels_(kInt8PanelRows, OutputWidth(config.model)),
      weights_(bf16_ == nullptr ? kChunk * OutputWidth(config.model) : 0),
      narrow_weights_(bf16_ == nullptr ? 0 : kChunk * OutputWidth(config.model)),
      gradient_(kChunk * OutputWidth(config.model)),
      bias_(kChunk) {}

template <typename Each>
void DenseScorer::ForEachChunk(OutputBatch* batch, const Each& each) {
  const std::span<const uint32_t> rows = batch->columns.rows;
  const size_t samples = batch->hidden.rows;
  const std::vector<size_t>& ends = batch->chunks;
  size_t begin = 0;
  for (size_t c = 0; c < ends.size(); ++c) {
    const size_t next_end = c + 1 < ends.size() ? ends[c + 1] : ends[c];
    each(Chunk{begin, rows.subspan(begin, ends[c] - begin),
               rows.subspan(ends[c], next_end - ends[c]), batch->values.data() + begin * samples,
               batch->shifts.data() + c * samples, batch->weights.data() + begin});
    begin = ends[c];
  }
}

void DenseScorer::Score(OutputBatch* batch, ActiveReply* reply) {
  const ActiveColumns& columns = batch->columns;
  const size_t samples = batch->hidden.rows;
  const size_t width = columns.rows.size();
  if (bf16_ != nullptr) {
    batch->narrow.resize(batch->hidden.data.size());
    kernels_.to_bf16(batch->narrow.size(), batch->hidden.data.data(), batch->narrow.data());
  }
  if (int8_ != nullptr) {
    queries_.Resize(samples);
    queries_.Set(0, samples, batch->hidden.data.data(), kernels_);
  }
  batch->values.resize(samples * width);
  batch->chunks = ChunkEnds(columns);
  batch->shifts.resize(samples * batch->chunks.size());
  batch->weights = columns.weights;
  batch->label_logits.resize(centroids_ ? columns.label_columns.size() : 0);
  reply->active.assign(samples, static_cast<uint32_t>(width));
  reply->max.assign(samples, model_.loss == Loss::kSoftmax ? kMinusInfinity : 0.0f);
  reply->sum_exp.assign(samples, model_.loss == Loss::kSoftmax ? 0.0f : 1.0f);
  reply->target_logit.assign(samples, 0.0f);
  if (model_.loss == Loss::kSigmoid) reply->loss.assign(samples, 0.0f);
  if (synchronous_ && model_.loss == Loss::kSoftmax) reply->exp_sums.resize(samples);
  ForEachChunk(batch, [&](const Chunk& chunk) {
    stats_.Enter(Phase::kForward);
    Logits(chunk, *batch);
    stats_.Enter(Phase::kSoftmax);
    if (centroids_) LeaveSamplesOut(chunk, batch);
    if (model_.loss == Loss::kSoftmax) {
      SoftmaxStatistics(chunk, *batch, reply);
    } else {
      SigmoidDelta(chunk, *batch, reply);
    }
  });
  if (!reply->exp_sums.empty()) UseExpSums(reply);
}

// values = h W^T + b, and for the softmax + log weight.
void DenseScorer::Logits(const Chunk& chunk, const OutputBatch& batch) {
  const size_t samples = batch.hidden.rows;
  const size_t dim = OutputWidth(model_);
  const size_t count = chunk.rows.size();
  for (size_t u = 0; u < count; ++u) {
    bias_[u] = rows_.layer.bias(chunk.rows[u]);
    if (model_.loss == Loss::kSoftmax) bias_[u] += std::log(chunk.weights[u]);
  }
  if (bf16_ != nullptr) {
    rows_.layer.Gather(chunk.rows, narrow_weights_.data());
  } else {
    rows_.layer.Gather(chunk.rows, weights_.data());
  }
  for (const uint32_t row : chunk.next) rows_.layer.PrefetchWeights(row);
  if (int8_ != nullptr) {
    panels_.Resize(count);
    panels_.Set(0, count, weights_.data(), kernels_);
    int8_->score(queries_.units(), samples, queries_.values(0), queries_.scales(0), count,
                 panels_.values(0), panels_.scales(0), bias_.data(), chunk.values, count);
    return;
  }
  for (size_t i = 0; i < samples; ++i) std::copy_n(bias_.data(), count, chunk.values + i * count);
  if (bf16_ != nullptr) {
    bf16_->nt(samples, count, dim, batch.narrow.data(), dim, narrow_weights_.data(), dim,
              chunk.values, count, true);
  } else {
    kernels_.gemm_nt(samples, count, dim, batch.hidden.data.data(), dim, weights_.data(), dim,
                     chunk.values, count, true);
  }
}

// partial += values W, a part of the sum; gradient_ = values^T h.
void DenseScorer::Products(const Chunk& chunk, const OutputBatch& batch, PartialSums* partial) {
  const size_t samples = batch.hidden.rows;
  const size_t dim = OutputWidth(model_);
  const size_t count = chunk.rows.size();
  float* sum = partial->part()->data.data();
  if (bf16_ != nullptr) {
    rows_.layer.Gather(chunk.rows, narrow_weights_.data());
    for (const uint32_t row : chunk.rows) rows_.layer.PrefetchAll(row);
    narrow_values_.resize(samples * kChunk);
    kernels_.to_bf16(samples * count, chunk.values, narrow_values_.data());
    bf16_->nn(samples, dim, count, narrow_values_.data(), count, narrow_weights_.data(), dim, sum,
              dim, true);
    if (centroids_) return partial->EndPart();
    bf16_->tn(count, dim, samples, narrow_values_.data(), count, batch.narrow.data(), dim,
              gradient_.data(), dim, false);
  } else {
    rows_.layer.Gather(chunk.rows, weights_.data());
    for (const uint32_t row : chunk.rows) rows_.layer.PrefetchAll(row);
    kernels_.gemm_nn(samples, dim, count, chunk.values, count, weights_.data(), dim, sum, dim,
                     true);
    if (centroids_) return partial->EndPart();
    kernels_.gemm_tn(count, dim, samples, chunk.values, count, batch.hidden.data.data(), dim,
                     gradient_.data(), dim, false);
  }
  partial->EndPart();
}

void DenseScorer::LeaveSamplesOut(const Chunk& chunk, OutputBatch* batch) const {
  const ActiveColumns& columns = batch->columns;
  if (chunk.begin >= columns.labelled) return;
  const size_t count = chunk.rows.size();
  for (size_t i = 0; i < batch->hidden.rows; ++i) {
    const float* h = batch->hidden.row(i);
    const float norm = std::sqrt(kernels_.dot(OutputWidth(model_), h, h));
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      const size_t u = columns.label_columns[e] - chunk.begin;  // wraps for earlier columns
      if (u >= count) continue;
      const uint32_t row = chunk.rows[u];
      float& logit = chunk.values[i * count + u];
      batch->label_logits[e] = WithoutSample(logit, norm, rows_.layer.samples(row),
                                             rows_.layer.sum_length(row), batch->WeightOf(i));
      logit = batch->label_logits[e].logit;
    }
  }
}

// SubtractTargets() or Sparsify() has multiplied by dL/dlogit.
void DenseScorer::AddSamples(const OutputBatch& batch, PartialSums* partial) const {
  const ActiveColumns& columns = batch.columns;
  for (uint32_t i = 0; i < batch.hidden.rows; ++i) {
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      partial->Add(kernels_, batch.label_logits[e].sample, batch.hidden.row(i), i);
    }
  }
}

// Replaces the logits by exponentials and merges them into the reply (a streaming log-sum-exp).
void DenseScorer::SoftmaxStatistics(const Chunk& chunk, const OutputBatch& batch,
                                    ActiveReply* reply) const {
  const ActiveColumns& columns = batch.columns;
  const size_t count = chunk.rows.size();
  for (size_t i = 0; i < batch.hidden.rows; ++i) {
    float* z = chunk.values + i * count;
    if (chunk.begin < columns.labelled) {
      for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
        const size_t u = columns.label_columns[e] - chunk.begin;  // wraps for earlier columns
        if (u < count) reply->target_logit[i] += z[u] / static_cast<float>(batch.label_totals[i]);
      }
    }
    const float max = kernels_.max(count, z);
    const float sum = kernels_.exp_sum(count, max, z);
    chunk.shifts[i] = max;
    if (synchronous_) {
      reply->exp_sums[i].Add(max, sum);
    } else if (max > reply->max[i]) {
      reply->sum_exp[i] = reply->sum_exp[i] * std::exp(reply->max[i] - max) + sum;
      reply->max[i] = max;
    } else {
      reply->sum_exp[i] += sum * std::exp(max - reply->max[i]);
    }
  }
}

// Binary cross-entropy needs no normaliser: its loss and dloss/dlogit are known at once.
void DenseScorer::SigmoidDelta(const Chunk& chunk, const OutputBatch& batch,
                               ActiveReply* reply) const {
  const ActiveColumns& columns = batch.columns;
  const size_t count = chunk.rows.size();
  const float scale = 1.0f / static_cast<float>(batch.hidden.rows);
  for (size_t i = 0; i < batch.hidden.rows; ++i) {
    float* z = chunk.values + i * count;
    double loss = 0;
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      const size_t u = columns.label_columns[e] - chunk.begin;
      if (u < count) loss -= double{z[u]};
    }
    loss += SigmoidLoss(count, chunk.weights, scale, z);
    reply->loss[i] += static_cast<float>(loss);
  }
}

// A column with weight w = 1 / pi adds (1 - pi) (w e)^2 to the variance of the sum; w e is the
// value.
std::vector<float> DenseScorer::TailVariance(const OutputBatch& batch, const ActiveReply& reply,
                                             uint32_t samples) const {
  if (model_.loss != Loss::kSoftmax) return {};
  std::vector<float> variance(samples, 0.0f);
  size_t begin = 0;
  for (size_t c = 0; c < batch.chunks.size(); ++c) {
    const size_t count = batch.chunks[c] - begin;
    const float* values = batch.values.data() + begin * batch.hidden.rows;
    const float* shifts = batch.shifts.data() + c * batch.hidden.rows;
    for (size_t i = 0; i < samples; ++i) {
      double sum = 0;
      for (size_t u = 0; u < count; ++u) {
        const double value = values[i * count + u];
        sum += value * value * (1.0 - 1.0 / batch.weights[begin + u]);
      }
      const double share = std::exp(double{shifts[i]} - reply.max[i]) / reply.sum_exp[i];
      variance[i] += static_cast<float>(sum * share * share);
    }
    begin = batch.chunks[c];
  }
  return variance;
}

void DenseScorer::Gradient(OutputBatch* batch, const std::vector<float>& log_normaliser,
                           const RowGradientSink& take, PartialSums* partial) {
  const bool keeps_mass = rows_.layer.keeps_mass();
  batch->masses.assign(keeps_mass ? batch->columns.rows.size() : 0, 0.0f);
  if (IsSparse(*batch)) {
    stats_.Enter(Phase::kSoftmax);
    Sparsify(batch, log_normaliser);
    stats_.Enter(Phase::kBackward);
    SparseProducts(*batch, take, partial);
    if (centroids_) AddSamples(*batch, partial);
    return;
  }
  stats_.CountProducts(2 * batch->values.size());
  ForEachChunk(batch, [&](const Chunk& chunk) {
    stats_.Enter(Phase::kSoftmax);
    SoftmaxDelta(chunk, *batch, log_normaliser);
    if (keeps_mass) MeasureMass(chunk, batch);
    SubtractTargets(chunk, batch);
    stats_.Enter(Phase::kBackward);
    Products(chunk, *batch, partial);
    stats_.Enter(Phase::kUpdate);
    if (!centroids_) HandOut(chunk, take);
  });
  if (centroids_) AddSamples(*batch, partial);
}

// values = weight softmax / B (of the sigmoid they are its gradients already, without the weights),
// bias_gradient_ = their sum over samples.
void DenseScorer::SoftmaxDelta(const Chunk& chunk, const OutputBatch& batch,
                               const std::vector<float>& log_normaliser) {
  const size_t count = chunk.rows.size();
  bias_gradient_.assign(count, 0.0f);
  for (size_t i = 0; i < batch.hidden.rows; ++i) {
    float* values = chunk.values + i * count;
    if (model_.loss == Loss::kSigmoid) {
      kernels_.scale_add(count, batch.WeightOf(i), values, bias_gradient_.data());
      continue;
    }
    kernels_.scale_add(count, SoftmaxFactor(batch, i, chunk.shifts[i], log_normaliser[i]), values,
                       bias_gradient_.data());
  }
}

// From the sums over samples, before the targets are subtracted.
void DenseScorer::MeasureMass(const Chunk& chunk, OutputBatch* batch) const {
  const ActiveColumns& columns = batch->columns;
  const size_t count = chunk.rows.size();
  float* masses = batch->masses.data() + chunk.begin;
  std::copy_n(bias_gradient_.begin(), count, masses);
  if (chunk.begin < columns.labelled) {
    for (size_t i = 0; i < batch->hidden.rows; ++i) {
      for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
        const size_t u = columns.label_columns[e] - chunk.begin;
        if (u < count) masses[u] -= chunk.values[i * count + u];
      }
    }
  }
  for (size_t u = 0; u < count; ++u) masses[u] /= chunk.weights[u];
}

// Whether the entries that are left are few enough: each costs as much as some 4 of a product. A
// sample's entries are spread over all executors, so what counts is the width on all of them.
// Synchronous training takes the expected one, so that all decide the same.
bool DenseScorer::IsSparse(const OutputBatch& batch) const {
  const SlotMap& map = rows_.layer.map();
  double width = 0;
  if (synchronous_) {
    width = DrawsByMass(model_) ? model_.negatives : map.total();
  } else if (map.size() > 0) {
    width = static_cast<double>(batch.columns.rows.size()) * map.total() / map.size();
  }
  return bf16_ == nullptr && threshold_ > 0 && width * threshold_ >= 4;
}

// by_sample_ = dL/dlogit, in expectation. Labels are always left. What smoothing subtracts from a
// label comes with the other entries: it may be left out.
void DenseScorer::Sparsify(OutputBatch* batch, const std::vector<float>& log_normaliser) {
  const ActiveColumns& columns = batch->columns;
  const size_t samples = batch->hidden.rows;
  const size_t width = columns.rows.size();
  const float threshold = threshold_ / static_cast<float>(samples);
  const std::vector<size_t>& ends = batch->chunks;
  const auto chunk_of = [&](size_t u) {
    return static_cast<size_t>(std::ranges::upper_bound(ends, u) - ends.begin());
  };
  const auto begin_of = [&](size_t chunk) { return chunk == 0 ? 0 : ends[chunk - 1]; };
  const auto factor = [&](size_t i, size_t chunk) {
    if (model_.loss == Loss::kSigmoid) return batch->WeightOf(i);
    return SoftmaxFactor(*batch, i, batch->shifts[chunk * samples + i], log_normaliser[i]);
  };
  const auto values_of = [&](size_t i, size_t chunk) {
    const size_t begin = begin_of(chunk);
    return batch->values.data() + begin * samples + i * (ends[chunk] - begin);
  };
  noises_.resize(width);
  for (size_t u = 0; u < width; ++u) {
    noises_[u] =
        static_cast<uint32_t>(Mix64(batch->seed + rows_.layer.map().Global(columns.rows[u])));
  }
  bias_gradient_.assign(width, 0.0f);  // over samples of which a column is no label
  by_sample_.Clear();
  size_t used = 0;
  for (size_t i = 0; i < samples; ++i) {
    const size_t most = used + width + columns.label_offsets[i + 1] - columns.label_offsets[i];
    if (by_sample_.columns.size() < most) {
      by_sample_.columns.resize(2 * most);
      by_sample_.values.resize(2 * most);
    }
    const float target = Target(*batch, i);
    const float smooth = SmoothTarget(*batch, i);
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      const uint32_t u = columns.label_columns[e];
      const size_t chunk = chunk_of(u);
      float& value = values_of(i, chunk)[u - begin_of(chunk)];
      by_sample_.columns[used] = u;
      float delta = value * factor(i, chunk) - target;
      if (centroids_) MultiplyBy(&delta, &batch->label_logits[e]);
      by_sample_.values[used++] = delta;
      value = 0;
    }
    const auto noise = static_cast<uint32_t>(SubSeed(batch->seed, i));
    // A sample keeps as many entries whatever its weight is, and none with a weight of 0.
    const float of_sample = threshold * batch->WeightOf(i);
    for (size_t chunk = 0; of_sample > 0 && chunk < ends.size(); ++chunk) {
      const size_t begin = begin_of(chunk);
      const size_t left =
          kernels_.sparsify(ends[chunk] - begin, factor(i, chunk), values_of(i, chunk), smooth,
                            batch->weights.data() + begin, of_sample, noise, noises_.data() + begin,
                            bias_gradient_.data() + begin, by_sample_.columns.data() + used,
                            by_sample_.values.data() + used);
      for (size_t e = used; e < used + left; ++e) {
        by_sample_.columns[e] += static_cast<uint32_t>(begin);
      }
      used += left;
    }
    by_sample_.offsets.push_back(static_cast<uint32_t>(used));
  }
  by_sample_.columns.resize(used);
  by_sample_.values.resize(used);
  for (size_t u = 0; u < batch->masses.size(); ++u) {
    batch->masses[u] = bias_gradient_[u] / batch->weights[u];
  }
}

void DenseScorer::SparseProducts(const OutputBatch& batch, const RowGradientSink& take,
                                 PartialSums* partial) {
  const std::vector<uint32_t>& rows = batch.columns.rows;
  const size_t dim = OutputWidth(model_);
  for (uint32_t i = 0; i < by_sample_.rows(); ++i) {
    picked_.clear();
    for (const uint32_t u : by_sample_.Columns(i)) picked_.push_back(rows[u]);
    partial->AddRows(rows_.layer, picked_, by_sample_.Values(i).data(), i);
  }
  if (centroids_) return;  // neurons have no gradients
  Transpose(by_sample_, by_sample_.columns, static_cast<uint32_t>(rows.size()), &by_column_);
  stats_.CountProducts(2 * by_sample_.values.size());
  stats_.Enter(Phase::kUpdate);
  const size_t ahead = PrefetchDistance(rows_.layer.WeightBytes() + rows_.layer.StateBytes());
  for (uint32_t u = 0; u < rows.size(); ++u) {
    if (u + ahead < rows.size()) rows_.layer.PrefetchAll(rows[u + ahead]);
    const auto values = by_column_.Values(u);
    if (values.empty()) continue;
    kernels_.weighted_sum(dim, values.size(), by_column_.Columns(u).data(), values.data(),
                          batch.hidden.data.data(), dim, gradient_.data());
    take(rows[u], gradient_.data(), std::accumulate(values.begin(), values.end(), 0.0f));
  }
}

void DenseScorer::SubtractTargets(const Chunk& chunk, OutputBatch* batch) {
  const ActiveColumns& columns = batch->columns;
  const size_t count = chunk.rows.size();
  for (size_t i = 0; i < batch->hidden.rows; ++i) {
    const float smooth = SmoothTarget(*batch, i);
    if (smooth == 0) continue;
    kernels_.axpy(count, -smooth, chunk.weights, chunk.values + i * count);
    kernels_.axpy(count, -smooth, chunk.weights, bias_gradient_.data());
  }
  if (chunk.begin >= columns.labelled) return;
  for (size_t i = 0; i < batch->hidden.rows; ++i) {
    const float target = Target(*batch, i);
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      const size_t u = columns.label_columns[e] - chunk.begin;
      if (u >= count) continue;
      chunk.values[i * count + u] -= target;
      bias_gradient_[u] -= target;
      if (centroids_) MultiplyBy(&chunk.values[i * count + u], &batch->label_logits[e]);
    }
  }
}

void DenseScorer::HandOut(const Chunk& chunk, const RowGradientSink& take) {
  for (const uint32_t row : chunk.next) rows_.layer.PrefetchWeights(row);
  for (size_t u = 0; u < chunk.rows.size(); ++u) {
    take(chunk.rows[u], gradient_.data() + u * OutputWidth(model_), bias_gradient_[u]);
  }
}

}  // namespace dslide
