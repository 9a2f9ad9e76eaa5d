#include "server/model/list_scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/math/prefetch.h"
#include "common/run/combine.h"

namespace dslide {

// Labels first, so that a label that is also a candidate counts as label.
void ListScorer::CollectOwn(const ActiveColumns& columns, size_t samples) {
  own_.clear();
  repeated_.clear();
  own_counts_.assign(samples, 0);
  last_.assign(columns.rows.size(), 0);
  const bool hashed = columns.hit_offsets.size() > 1;
  for (uint32_t i = 0; i < samples; ++i) {
    const size_t before = own_.size();
    const auto add = [&](uint32_t column, uint32_t label, float weight) {
      if (last_[column] == i + 1) {
        if (label != kNoLabel) repeated_.push_back({column, i, label, weight});
        return;
      }
      last_[column] = i + 1;
      own_.push_back({column, i, label, weight});
    };
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      add(columns.label_columns[e], e, 1.0f);
    }
    for (uint32_t e = hashed ? columns.hit_offsets[i] : 0; hashed && e < columns.hit_offsets[i + 1];
         ++e) {
      add(columns.hit_columns[e], kNoLabel, columns.hit_weights[e]);
    }
    own_counts_[i] = static_cast<uint32_t>(own_.size() - before);
  }
}

// Entries by column, samples ascending. A drawn column lists all samples, any other column those
// that own it. A sample's negatives are the draws that the sample does not own.
void ListScorer::Invert(OutputBatch* batch, ActiveReply* reply) {
  const ActiveColumns& columns = batch->columns;
  const auto samples = static_cast<uint32_t>(batch->hidden.rows);
  CollectOwn(columns, samples);
  std::vector<uint32_t> negatives(samples, columns.draws);
  batch->offsets.assign(columns.rows.size() + 1, 0);
  for (const Own& own : own_) {
    if (columns.drawn[own.column]) {
      negatives[own.sample]--;
    } else {
      batch->offsets[own.column + 1]++;
    }
  }
  for (size_t u = 0; u < columns.rows.size(); ++u) {
    batch->offsets[u + 1] =
        batch->offsets[u] + (columns.drawn[u] ? samples : batch->offsets[u + 1]);
  }
  reply->active.resize(samples);
  for (uint32_t i = 0; i < samples; ++i) reply->active[i] = own_counts_[i] + negatives[i];
  const size_t entries = batch->offsets.back();
  batch->samples.resize(entries);
  batch->weights.resize(entries);
  batch->values.resize(entries);
  batch->label_entries.assign(columns.label_columns.size(), 0);
  next_.assign(batch->offsets.begin(), batch->offsets.end() - 1);
  for (size_t u = 0; u < columns.rows.size(); ++u) {
    for (uint32_t i = 0; columns.drawn[u] && i < samples; ++i) {
      batch->samples[batch->offsets[u] + i] = i;
      batch->weights[batch->offsets[u] + i] = columns.weights[u];
    }
  }
  for (const Own& own : own_) {
    const size_t entry =
        columns.drawn[own.column] ? batch->offsets[own.column] + own.sample : next_[own.column]++;
    batch->samples[entry] = own.sample;
    batch->weights[entry] = own.weight;
    if (own.label != kNoLabel) batch->label_entries[own.label] = entry;
  }
  for (const Own& again : repeated_) {
    uint32_t first = columns.label_offsets[again.sample];
    while (columns.label_columns[first] != again.column) ++first;
    batch->label_entries[again.label] = batch->label_entries[first];
  }
}

const float* ListScorer::Row(const ActiveColumns& columns, size_t u) {
  const size_t ahead = PrefetchDistance(rows_.layer.WeightBytes());
  if (u + ahead < columns.rows.size()) rows_.layer.PrefetchWeights(columns.rows[u + ahead]);
  row_.resize(OutputWidth(model_));
  rows_.layer.Gather({&columns.rows[u], 1}, row_.data());
  return row_.data();
}

void ListScorer::Logits(OutputBatch* batch) {
  const ActiveColumns& columns = batch->columns;
  for (size_t u = 0; u < columns.rows.size(); ++u) {
    const float* row = Row(columns, u);
    const float bias = rows_.layer.bias(columns.rows[u]);
    for (size_t e = batch->offsets[u]; e < batch->offsets[u + 1]; ++e) {
      batch->values[e] =
          bias + kernels_.dot(OutputWidth(model_), batch->hidden.row(batch->samples[e]), row);
    }
  }
}

void ListScorer::Score(OutputBatch* batch, ActiveReply* reply) {
  stats_.Enter(Phase::kRetrieve);
  Invert(batch, reply);
  stats_.Enter(Phase::kForward);
  Logits(batch);
  stats_.Enter(Phase::kSoftmax);
  const size_t samples = batch->hidden.rows;
  reply->target_logit.assign(samples, 0.0f);
  if (model_.loss == Loss::kSoftmax) {
    SoftmaxStatistics(batch, reply);
  } else {
    SigmoidDelta(batch, reply);
  }
}

void ListScorer::SoftmaxStatistics(OutputBatch* batch, ActiveReply* reply) const {
  const ActiveColumns& columns = batch->columns;
  const size_t samples = batch->hidden.rows;
  const size_t entries = batch->values.size();
  float* z = batch->values.data();
  reply->max.assign(samples, -std::numeric_limits<float>::infinity());
  reply->sum_exp.assign(samples, 0.0f);
  for (size_t e = 0; e < entries; ++e) {
    if (batch->weights[e] != 1.0f) z[e] += std::log(batch->weights[e]);
    float& max = reply->max[batch->samples[e]];
    max = std::max(max, z[e]);
  }
  for (size_t i = 0; i < samples; ++i) {
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      reply->target_logit[i] +=
          z[batch->label_entries[e]] / static_cast<float>(batch->label_totals[i]);
    }
  }
  for (size_t e = 0; e < entries; ++e) z[e] -= reply->max[batch->samples[e]];
  (void)kernels_.exp_sum(entries, 0.0f, z);
  for (size_t e = 0; e < entries; ++e) reply->sum_exp[batch->samples[e]] += z[e];
  batch->shifts = reply->max;
  if (!synchronous_) return;
  reply->exp_sums.resize(samples);
  for (size_t i = 0; i < samples; ++i) reply->exp_sums[i].Add(reply->max[i], reply->sum_exp[i]);
  UseExpSums(reply);
}

void ListScorer::SigmoidDelta(OutputBatch* batch, ActiveReply* reply) const {
  const ActiveColumns& columns = batch->columns;
  const size_t samples = batch->hidden.rows;
  const float scale = 1.0f / static_cast<float>(samples);
  reply->max.assign(samples, 0.0f);
  reply->sum_exp.assign(samples, 1.0f);
  std::vector<double> loss(samples, 0.0);
  for (size_t i = 0; i < samples; ++i) {
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      loss[i] -= double{batch->values[batch->label_entries[e]]};
    }
  }
  for (size_t e = 0; e < batch->values.size(); ++e) {
    loss[batch->samples[e]] += SigmoidLoss(1, &batch->weights[e], scale, &batch->values[e]);
  }
  reply->loss.assign(loss.begin(), loss.end());
}

// Of the columns that were drawn for the batch, from probabilities before targets are subtracted.
void ListScorer::MeasureMass(OutputBatch* batch) const {
  const ActiveColumns& columns = batch->columns;
  batch->masses.assign(columns.rows.size(), kNoMass);
  const auto probability = [&](size_t e) { return batch->values[e] / batch->weights[e]; };
  for (size_t u = 0; u < columns.rows.size(); ++u) {
    if (!columns.drawn[u]) continue;
    batch->masses[u] = 0;
    for (size_t e = batch->offsets[u]; e < batch->offsets[u + 1]; ++e) {
      batch->masses[u] += probability(e);
    }
  }
  for (size_t e = 0; e < columns.label_columns.size(); ++e) {
    const uint32_t u = columns.label_columns[e];
    if (columns.drawn[u]) batch->masses[u] -= probability(batch->label_entries[e]);
  }
}

void ListScorer::Delta(OutputBatch* batch, const std::vector<float>& log_normaliser) const {
  const ActiveColumns& columns = batch->columns;
  const size_t samples = batch->hidden.rows;
  std::vector<float> factor(samples);
  std::vector<float> smooth(samples);
  for (size_t i = 0; i < samples; ++i) {
    smooth[i] = SmoothTarget(*batch, i);
    factor[i] = model_.loss == Loss::kSigmoid
                    ? batch->WeightOf(i)
                    : SoftmaxFactor(*batch, i, batch->shifts[i], log_normaliser[i]);
  }
  for (size_t e = 0; e < batch->values.size(); ++e) batch->values[e] *= factor[batch->samples[e]];
  if (rows_.layer.keeps_mass()) MeasureMass(batch);
  for (size_t e = 0; e < batch->values.size(); ++e) {
    batch->values[e] -= smooth[batch->samples[e]] * batch->weights[e];
  }
  for (size_t i = 0; i < samples; ++i) {
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      batch->values[batch->label_entries[e]] -= Target(*batch, i);
    }
  }
}

void ListScorer::Gradient(OutputBatch* batch, const std::vector<float>& log_normaliser,
                          const RowGradientSink& take, PartialSums* partial) {
  const ActiveColumns& columns = batch->columns;
  const size_t dim = OutputWidth(model_);
  stats_.Enter(Phase::kSoftmax);
  Delta(batch, log_normaliser);
  stats_.Enter(Phase::kBackward);  // includes the updates: the clock is not read at every row
  const size_t ahead = PrefetchDistance(rows_.layer.WeightBytes() + rows_.layer.StateBytes());
  for (size_t u = 0; u < columns.rows.size(); ++u) {
    if (u + ahead < columns.rows.size()) rows_.layer.PrefetchAll(columns.rows[u + ahead]);
    const float* row = Row(columns, u);
    gradient_.assign(dim, 0.0f);
    float bias_gradient = 0;
    for (size_t e = batch->offsets[u]; e < batch->offsets[u + 1]; ++e) {
      const uint32_t i = batch->samples[e];
      const float delta = batch->values[e];
      kernels_.axpy(dim, delta, batch->hidden.row(i), gradient_.data());
      kernels_.axpy(dim, delta, row, partial->part()->row(i));
      bias_gradient += delta;
    }
    take(columns.rows[u], gradient_.data(), bias_gradient);
  }
  partial->EndPart();
  stats_.CountProducts(2 * batch->values.size());
}

}  // namespace dslide
