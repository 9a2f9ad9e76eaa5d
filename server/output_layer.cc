#include "server/output_layer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/top_k.h"

namespace dslide {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr size_t kChunk = 512;      // columns gathered at a time: 256 KB at H = 128
constexpr uint32_t kTableLag = 16;  // batches until every table follows its neurons' codes

// A numerically safe log(1 + exp(x)).
double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

}  // namespace

OutputLayer::OutputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
                         const Kernels& kernels)
    : kernels_(kernels),
      model_(config.model),
      label_smoothing_(config.train.label_smoothing),
      layer_(LayerKind::kOutput, SlotMap(config.model.labels, config.cluster.slots, slots),
             config.model.hidden, config.train.optimizer, purpose),
      optimizer_(config.train, kernels),
      builder_(config.model, layer_.map()),
      popular_(builder_.popular(), layer_, kernels),
      rebuilds_per_batch_((config.hash.tables + kTableLag - 1) / kTableLag) {
  if (model_.active == ActiveSet::kLsh) {
    hash_ = HashFunctions::Make(config.hash, model_.hidden, SubSeed(config.common.seed, 0x4a5),
                                kernels);
    tables_.emplace(hash_->tables(), hash_->bits(), layer_.map().rows());
  }
}

void OutputLayer::RehashAll() {
  if (!tables_) return;
  std::vector<uint32_t> chunk;
  for (uint32_t row = 0; row < layer_.map().rows(); ++row) {
    if (layer_.map().Global(row) != SlotMap::kNone) chunk.push_back(row);
    if (chunk.size() < kChunk && row + 1 < layer_.map().rows()) continue;
    Gather(chunk.data(), chunk.size());
    codes_.resize(chunk.size() * tables_->tables());
    hash_->Codes(chunk.size(), rows_.data(), model_.hidden, codes_.data());
    for (size_t i = 0; i < chunk.size(); ++i) {
      tables_->SetCodes(chunk[i], {codes_.data() + i * tables_->tables(), tables_->tables()});
    }
    chunk.clear();
  }
  tables_->RebuildAll();
}

void OutputLayer::RestoreCodes(uint32_t row, std::span<const uint32_t> codes) {
  if (tables_) tables_->SetCodes(row, codes);
}

void OutputLayer::FinishRestore() {
  if (tables_) tables_->RebuildAll();
}

void OutputLayer::Gather(const uint32_t* rows, size_t count) {
  const size_t dim = model_.hidden;
  rows_.resize(std::max(rows_.size(), count * dim));
  bias_.resize(std::max(bias_.size(), count));
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(layer_.weights(rows[i + kAhead]));
    std::copy_n(layer_.weights(rows[i]), dim, rows_.data() + i * dim);
    bias_[i] = layer_.bias(rows[i]);
  }
}

ActiveReply OutputLayer::Query(ActiveQuery query, Random* random, OutputBatch* batch) {
  batch->hidden = std::move(query.hidden);
  batch->label_totals = std::move(query.label_totals);
  const size_t samples = batch->hidden.rows;
  stats_.Enter(Phase::kHash);
  if (tables_) {
    codes_.resize(std::max(codes_.size(), samples * tables_->tables()));
    hash_->Codes(samples, batch->hidden.data.data(), model_.hidden, codes_.data());
  }
  stats_.Enter(Phase::kRetrieve);
  popular_.Follow(batch->hidden);
  builder_.Build(query.labels, popular_.rows(), tables(), tables_ ? codes_.data() : nullptr, random,
                 &batch->columns);
  stats_.Enter(Phase::kForward);
  Score(batch);
  stats_.Enter(Phase::kSoftmax);

  ActiveReply reply;
  reply.active_rows = static_cast<uint32_t>(batch->columns.rows.size());
  reply.probes = MeasureRecall(*batch, std::min<uint32_t>(query.probe_samples, batch->hidden.rows));
  MaskAndWeigh(batch, &reply);
  if (model_.loss == Loss::kSoftmax) {
    SoftmaxStatistics(*batch, &reply);
  } else {
    SigmoidDelta(batch, &reply);
  }
  stats_.Leave();
  return reply;
}

// block = h W^T + b over all columns.
void OutputLayer::Score(OutputBatch* batch) {
  const size_t samples = batch->hidden.rows;
  const size_t dim = model_.hidden;
  const auto& rows = batch->columns.rows;
  batch->block.resize(samples * rows.size());
  for (size_t begin = 0; begin < rows.size(); begin += kChunk) {
    const size_t count = std::min(kChunk, rows.size() - begin);
    Gather(rows.data() + begin, count);
    float* block = batch->block.data() + begin;
    for (size_t i = 0; i < samples; ++i) {
      std::copy_n(bias_.data(), count, block + i * rows.size());
    }
    kernels_.gemm_nt(samples, count, dim, batch->hidden.data.data(), dim, rows_.data(), dim, block,
                     rows.size(), true);
  }
}

// Applies the sharing mode and the tail. With sharing = sample a column counts for a sample only if
// it is the sample's own label or candidate, or a uniform draw; others get logit -inf. A sample's
// negatives are the draws outside its own hash part; each of them stands for `tail_weight` neurons.
void OutputLayer::MaskAndWeigh(OutputBatch* batch, ActiveReply* reply) {
  const ActiveColumns& columns = batch->columns;
  const size_t samples = batch->hidden.rows;
  const size_t width = columns.rows.size();
  const auto neurons = static_cast<double>(layer_.map().size());
  const bool own_only = OwnOnly();
  std::vector<std::pair<uint32_t, float>> own;  // the sample's own hash part and its logits
  batch->tail_weight.assign(samples, 1.0f);
  reply->active.resize(samples);
  for (size_t i = 0; i < samples; ++i) {
    float* z = batch->block.data() + i * width;
    size_t hash_part = columns.hash_part;
    size_t negatives = width - columns.hash_part;
    if (own_only) {
      own.clear();
      for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
        own.emplace_back(columns.label_columns[e], z[columns.label_columns[e]]);
      }
      if (columns.hit_offsets.size() > 1) {
        for (uint32_t e = columns.hit_offsets[i]; e < columns.hit_offsets[i + 1]; ++e) {
          own.emplace_back(columns.hit_columns[e], z[columns.hit_columns[e]]);
        }
      }
      std::sort(own.begin(), own.end());
      own.erase(std::unique(own.begin(), own.end()), own.end());
      hash_part = own.size();
      negatives = columns.draws;
      for (const auto& [column, logit] : own) negatives -= columns.drawn[column];
    }
    reply->active[i] = static_cast<uint32_t>(hash_part + negatives);
    if (model_.tail == Tail::kWeighted && negatives > 0) {
      batch->tail_weight[i] = static_cast<float>((neurons - static_cast<double>(hash_part)) /
                                                 static_cast<double>(negatives));
    }
    const float offset = model_.loss == Loss::kSoftmax ? std::log(batch->tail_weight[i]) : 0.0f;
    for (size_t u = own_only ? 0 : columns.hash_part; u < width; ++u) {
      z[u] = columns.drawn[u] ? z[u] + offset : kMinusInfinity;
    }
    for (const auto& [column, logit] : own) z[column] = logit;
  }
}

void OutputLayer::SoftmaxStatistics(const OutputBatch& batch, ActiveReply* reply) const {
  const ActiveColumns& columns = batch.columns;
  const size_t samples = batch.hidden.rows;
  const size_t width = columns.rows.size();
  reply->max.resize(samples);
  reply->sum_exp.resize(samples);
  reply->target_logit.assign(samples, 0.0f);
  for (size_t i = 0; i < samples; ++i) {
    const float* z = batch.block.data() + i * width;
    reply->max[i] = kernels_.max(width, z);
    const bool scored = reply->max[i] > kMinusInfinity;
    reply->sum_exp[i] = scored ? kernels_.sum_exp(width, z, reply->max[i]) : 0.0f;
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      reply->target_logit[i] +=
          z[columns.label_columns[e]] / static_cast<float>(batch.label_totals[i]);
    }
  }
}

// weight[u - begin] = how many neurons column u stands for in the loss of sample i: 1 in its hash
// part, tail_weight for a negative, 0 if the column is none of the sample's.
void OutputLayer::ColumnWeights(const OutputBatch& batch, size_t i, size_t begin, size_t end,
                                float* weight) const {
  const ActiveColumns& columns = batch.columns;
  const float tail = batch.tail_weight[i];
  if (!OwnOnly()) {
    for (size_t u = begin; u < end; ++u) weight[u - begin] = u < columns.hash_part ? 1.0f : tail;
    return;
  }
  for (size_t u = begin; u < end; ++u) weight[u - begin] = columns.drawn[u] ? tail : 0.0f;
  const auto own = [&](const std::vector<uint32_t>& offsets, const std::vector<uint32_t>& list) {
    if (offsets.size() <= i + 1) return;
    for (uint32_t e = offsets[i]; e < offsets[i + 1]; ++e) {
      if (list[e] >= begin && list[e] < end) weight[list[e] - begin] = 1.0f;
    }
  };
  own(columns.label_offsets, columns.label_columns);
  own(columns.hit_offsets, columns.hit_columns);
}

// Binary cross-entropy needs no normaliser: its loss and dloss/dlogit are known at once. Each
// negative's loss counts tail_weight times.
void OutputLayer::SigmoidDelta(OutputBatch* batch, ActiveReply* reply) const {
  const ActiveColumns& columns = batch->columns;
  const size_t samples = batch->hidden.rows;
  const size_t width = columns.rows.size();
  reply->max.assign(samples, 0.0f);
  reply->sum_exp.assign(samples, 1.0f);
  reply->target_logit.assign(samples, 0.0f);
  reply->loss.resize(samples);
  const float scale = 1.0f / static_cast<float>(samples);
  std::vector<float> weight(width);
  for (size_t i = 0; i < samples; ++i) {
    float* z = batch->block.data() + i * width;
    ColumnWeights(*batch, i, 0, width, weight.data());

    double loss = 0;
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      loss -= z[columns.label_columns[e]];
    }
    for (size_t u = 0; u < width; ++u) {
      loss += double{weight[u]} * Softplus(z[u]);
      z[u] = scale * weight[u] / (1.0f + std::exp(-z[u]));
    }
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      z[columns.label_columns[e]] -= scale;
    }
    reply->loss[i] = static_cast<float>(loss);
  }
}

// delta[u - begin] = (softmax_u - target_u) / B for columns [begin, end) of sample i. A sample
// without labels has no target distribution and no gradient.
void OutputLayer::SoftmaxDelta(const OutputBatch& batch, const std::vector<float>& log_normaliser,
                               size_t i, size_t begin, size_t end, float* delta) const {
  const ActiveColumns& columns = batch.columns;
  const size_t width = columns.rows.size();
  if (batch.label_totals[i] == 0) {
    std::fill_n(delta, end - begin, 0.0f);
    return;
  }
  const float scale = 1.0f / static_cast<float>(batch.hidden.rows);
  kernels_.exp_scaled(end - begin, batch.block.data() + i * width + begin, log_normaliser[i], scale,
                      delta);
  if (label_smoothing_ > 0) {
    std::vector<float> weight(end - begin);
    ColumnWeights(batch, i, begin, end, weight.data());
    kernels_.axpy(end - begin, -scale * label_smoothing_ / static_cast<float>(model_.labels),
                  weight.data(), delta);
  }
  const float target =
      scale * (1.0f - label_smoothing_) / static_cast<float>(batch.label_totals[i]);
  for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
    const size_t u = columns.label_columns[e];
    if (u >= begin && u < end) delta[u - begin] -= target;
  }
}

Matrix OutputLayer::Gradient(OutputBatch* batch, const std::vector<float>& log_normaliser,
                             float learning_rate) {
  const size_t samples = batch->hidden.rows;
  const size_t dim = model_.hidden;
  const auto& rows = batch->columns.rows;
  const float* hidden = batch->hidden.data.data();
  Matrix partial(batch->hidden.rows, model_.hidden);
  std::vector<float> bias_gradient(kChunk);
  delta_.resize(std::max(delta_.size(), samples * kChunk));
  gradient_.resize(kChunk * dim);
  for (size_t begin = 0; begin < rows.size(); begin += kChunk) {
    const size_t count = std::min(kChunk, rows.size() - begin);
    stats_.Enter(Phase::kSoftmax);
    std::fill(bias_gradient.begin(), bias_gradient.end(), 0.0f);
    for (size_t i = 0; i < samples; ++i) {
      float* delta = delta_.data() + i * count;
      if (model_.loss == Loss::kSoftmax) {
        SoftmaxDelta(*batch, log_normaliser, i, begin, begin + count, delta);
      } else {
        std::copy_n(batch->block.data() + i * rows.size() + begin, count, delta);
      }
      kernels_.axpy(count, 1.0f, delta, bias_gradient.data());
    }
    stats_.Enter(Phase::kBackward);
    Gather(rows.data() + begin, count);
    kernels_.gemm_nn(samples, dim, count, delta_.data(), count, rows_.data(), dim,
                     partial.data.data(), dim, true);
    kernels_.gemm_tn(count, dim, samples, delta_.data(), count, hidden, dim, gradient_.data(), dim,
                     false);
    stats_.Enter(Phase::kUpdate);
    UpdateChunk(rows.data() + begin, count, gradient_.data(), bias_gradient.data(), learning_rate);
  }
  stats_.Enter(Phase::kRehash);
  for (uint32_t r = 0; tables_ && r < rebuilds_per_batch_; ++r) tables_->RebuildNext();
  stats_.Leave();
  stats_.CountRows(rows.size());
  return partial;
}

// Updates the rows and gives them the codes of their new weights.
void OutputLayer::UpdateChunk(const uint32_t* rows, size_t count, const float* gradients,
                              const float* bias, float learning_rate) {
  const size_t dim = model_.hidden;
  for (size_t c = 0; c < count; ++c) {
    optimizer_.Apply(learning_rate, dim, gradients + c * dim, bias[c], true, layer_.row(rows[c]));
  }
  if (!tables_) return;
  stats_.Enter(Phase::kRehash);
  Gather(rows, count);
  codes_.resize(std::max(codes_.size(), count * tables_->tables()));
  hash_->Codes(count, rows_.data(), dim, codes_.data());
  for (size_t c = 0; c < count; ++c) {
    tables_->SetCodes(rows[c], {codes_.data() + c * tables_->tables(), tables_->tables()});
  }
}

// Logits of all samples against local rows [begin, end); padding rows get -inf.
void OutputLayer::ScoreChunk(const Matrix& hidden, uint32_t begin, uint32_t end, float* logits) {
  const size_t count = end - begin;
  kernels_.gemm_nt(hidden.rows, count, model_.hidden, hidden.data.data(), model_.hidden,
                   layer_.weights(begin), model_.hidden, logits, count, false);
  bias_.resize(std::max(bias_.size(), count));
  for (size_t u = 0; u < count; ++u) {
    const auto row = static_cast<uint32_t>(begin + u);
    bias_[u] = layer_.map().Global(row) == SlotMap::kNone ? kMinusInfinity : layer_.bias(row);
  }
  for (size_t i = 0; i < hidden.rows; ++i) {
    kernels_.axpy(count, 1.0f, bias_.data(), logits + i * count);
  }
}

TopKReply OutputLayer::TopK(const TopKRequest& request) {
  const size_t samples = request.hidden.rows;
  std::vector<TopKHeap> heaps(samples, TopKHeap(request.k));
  const auto allowed = [&](size_t i, uint32_t id) {
    if (request.excluded.rows() == 0) return true;
    const auto out = request.excluded.Ids(i);
    return std::find(out.begin(), out.end(), id) == out.end();
  };
  const auto offer = [&](size_t i, uint32_t row, float score) {
    if (!heaps[i].Accepts(score)) return;
    const uint32_t id = layer_.map().Global(row);
    if (allowed(i, id)) heaps[i].Offer(id, score);
  };
  if (request.search == Search::kLsh && tables_) {
    CandidateRanker ranker(layer_.map().rows());
    std::vector<uint32_t> codes(samples * tables_->tables());
    hash_->Codes(samples, request.hidden.data.data(), model_.hidden, codes.data());
    std::vector<uint32_t> picked;
    const uint32_t limit = std::max(10 * request.k, 10 * builder_.candidates());
    for (size_t i = 0; i < samples; ++i) {
      picked.clear();
      ranker.Rank(*tables_, {codes.data() + i * tables_->tables(), tables_->tables()}, limit,
                  &picked);
      for (const uint32_t row : picked) {
        offer(i, row,
              layer_.bias(row) +
                  kernels_.dot(model_.hidden, request.hidden.row(i), layer_.weights(row)));
      }
    }
  } else {
    constexpr uint32_t kScan = 1024;
    std::vector<float> logits(samples * kScan);
    for (uint32_t begin = 0; begin < layer_.map().rows(); begin += kScan) {
      const uint32_t end = std::min(layer_.map().rows(), begin + kScan);
      ScoreChunk(request.hidden, begin, end, logits.data());
      for (size_t i = 0; i < samples; ++i) {
        const float* z = logits.data() + i * (end - begin);
        for (uint32_t u = 0; u < end - begin; ++u) {
          if (heaps[i].Accepts(z[u])) offer(i, begin + u, z[u]);
        }
      }
    }
  }
  TopKReply reply;
  for (TopKHeap& heap : heaps) heap.AppendTo(&reply);
  return reply;
}

std::vector<Probe> OutputLayer::MeasureRecall(const OutputBatch& batch, uint32_t samples) {
  if (samples == 0) return {};
  TopKRequest request;
  request.hidden = Matrix(samples, model_.hidden);
  std::copy_n(batch.hidden.data.begin(), request.hidden.data.size(), request.hidden.data.begin());
  request.k = kProbeNeurons;
  const TopKReply best = TopK(request);

  const ActiveColumns& columns = batch.columns;
  const auto holds = [&](const uint32_t* begin, const uint32_t* end, uint32_t row) {
    return std::any_of(begin, end, [&](uint32_t column) { return columns.rows[column] == row; });
  };
  std::vector<Probe> probes(samples);
  for (uint32_t i = 0; i < samples; ++i) {
    for (uint32_t e = best.offsets[i]; e < best.offsets[i + 1]; ++e) {
      const uint32_t row = layer_.map().Local(best.ids[e]);
      const bool in_hash = columns.hit_offsets.size() > 1 &&
                           holds(columns.hit_columns.data() + columns.hit_offsets[i],
                                 columns.hit_columns.data() + columns.hit_offsets[i + 1], row);
      const auto at = std::find(columns.rows.begin(), columns.rows.end(), row);
      bool in_set = at != columns.rows.end();
      if (in_set && OwnOnly()) {
        in_set = in_hash || columns.drawn[static_cast<size_t>(at - columns.rows.begin())] ||
                 holds(columns.label_columns.data() + columns.label_offsets[i],
                       columns.label_columns.data() + columns.label_offsets[i + 1], row);
      }
      probes[i].ids.push_back(best.ids[e]);
      probes[i].logits.push_back(best.scores[e]);
      probes[i].in_set.push_back(in_set);
      probes[i].in_hash.push_back(in_hash);
    }
  }
  return probes;
}

}  // namespace dslide
