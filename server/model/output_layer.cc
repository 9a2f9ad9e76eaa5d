#include "server/model/output_layer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "common/base/check.h"
#include "common/base/process.h"
#include "common/config/limits.h"
#include "server/model/centroids.h"
#include "server/model/dense_scorer.h"
#include "server/model/list_scorer.h"

namespace dslide {

OutputLayer::OutputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
                         const Kernels& kernels)
    : kernels_(kernels),
      model_(config.model),
      synchronous_(IsSynchronous(config.train)),
      rows_{Layer(
          LayerKind::kOutput, config,
          SlotMap(config.model.labels, config.cluster.slots, OutputSlots(config.cluster), slots),
          purpose, kernels)},
      search_(rows_, purpose, kernels),
      builder_(config.model, rows_.layer.map(), synchronous_) {
  if (HasNeuronIndex(model_)) rows_.index.emplace(config, &rows_.layer, purpose, kernels);
  if (DrawsByMass(model_) && purpose == Purpose::kTraining) importance_.emplace(rows_.layer);
  if (OwnOnly()) {
    scorer_ = std::make_unique<ListScorer>(config, &rows_, kernels, &stats_);
  } else {
    scorer_ = std::make_unique<DenseScorer>(config, &rows_, kernels, &stats_);
  }
}

void OutputLayer::FollowMap() {
  if (rows_.index) rows_.index->FollowMap();
  builder_.FollowMap();
  if (importance_) importance_->FollowMap();
}

void OutputLayer::Resize(const Config& config, const ModelShape& shape) {
  DSLIDE_CHECK(!rows_.index);
  Layer& layer = rows_.layer;
  const uint32_t before = layer.map().total();
  // As neurons are that have learned: activations are large by now, and a drawn neuron would have
  // more of the softmax than all others, or its first step would take it as far to the other side.
  // Of its own slot, so that it does not matter who has the others.
  std::map<SlotId, Layer::Typical> typical;
  for (const SlotId slot : layer.map().owned()) typical[slot] = layer.TypicalOf(slot);
  const auto draw = [&](uint32_t id) {
    const uint32_t row = layer.map().Local(id);
    if (row == SlotMap::kNone) return;
    const Layer::Typical& as = typical[layer.map().SlotOf(row)];
    if (as.weights.empty()) {
      layer.BeginAnew(row, config.common.seed, config.model.output_init);
    } else {
      layer.BeginAs(row, as);
    }
  };
  for (const uint32_t id : shape.removed_labels) {
    const uint32_t row = layer.map().Local(id);
    if (row != SlotMap::kNone) layer.Silence(row);
  }
  layer.Widen(std::max(before, shape.labels));
  for (uint32_t id = before; id < layer.map().total(); ++id) draw(id);
  for (const uint32_t id : shape.recycled_labels) draw(id);
  builder_.FollowMap();
  if (importance_) importance_->FollowResize();
}

ActiveReply OutputLayer::Query(const ActiveQuery& query, const Draws& draws, OutputBatch* batch) {
  batch->hidden = query.hidden;
  batch->label_totals = query.label_totals;
  batch->sample_weights = query.weights;
  batch->seed = draws.seed;
  batch->masses.clear();
  const uint32_t samples = batch->hidden.rows;
  std::optional<ActiveSetBuilder::Hashed> hashed;
  stats_.Enter(Phase::kHash);
  if (rows_.index && !draws.only_labels) {
    const LiveTables& tables = rows_.index->tables();
    codes_.resize(samples * size_t{tables.tables().size()});
    tables.functions().Codes(samples, batch->hidden.data.data(), OutputWidth(model_),
                             codes_.data());
    hashed.emplace(tables.tables(), codes_.data());
  }
  stats_.Enter(Phase::kRetrieve);
  if (draws.only_labels) {
    builder_.BuildLabels(query.labels, &batch->columns);
  } else if (importance_) {
    builder_.Build(query.labels, *importance_, draws, hashed ? &*hashed : nullptr, &batch->columns);
  } else {
    builder_.Build(query.labels, &batch->columns);
  }
  rows_.layer.Fetch(batch->columns.rows);
  ActiveReply reply;
  reply.active_rows = static_cast<uint32_t>(batch->columns.rows.size());
  // What a worker asks for beyond what the run measures is not measured.
  const uint32_t probed =
      draws.only_labels ? 0 : std::min({query.probe_samples, kProbedSamples, samples});
  if (model_.active != ActiveSet::kMass) reply.probes = MeasureRecall(*batch, probed);
  scorer_->Score(batch, &reply);
  stats_.CountProducts(batch->values.size());
  reply.tail_variance = scorer_->TailVariance(*batch, reply, probed);
  stats_.Leave();
  return reply;
}

// The masses may change until then, and some of the draws with them.
void OutputLayer::ReadAhead(const SparseRows& labels, const Draws& draws) {
  if (!rows_.layer.has_rows_on_disk()) return;
  ahead_.clear();
  for (const uint32_t id : labels.ids) {
    const uint32_t row = rows_.layer.map().Local(id);
    if (row != SlotMap::kNone) ahead_.push_back(row);
  }
  if (importance_ && !draws.only_labels) {
    drawn_ahead_.clear();
    importance_->Sample(draws.expected, draws.seed, &drawn_ahead_);
    for (const ImportanceBuckets::Draw& draw : drawn_ahead_) ahead_.push_back(draw.row);
  }
  rows_.layer.Fetch(ahead_, true);
}

PartialSum OutputLayer::Gradient(OutputBatch* batch, const std::vector<float>& log_normaliser,
                                 const RowGradientSink& take) {
  PartialSums partial(batch->hidden.rows, OutputWidth(model_), synchronous_);
  rows_.layer.Fetch(batch->columns.rows, true);
  scorer_->Gradient(batch, log_normaliser, take, &partial);
  WeighMasses(batch);
  stats_.Leave();
  stats_.CountRows(batch->columns.rows.size());
  return partial.Take();
}

// Makes means over the samples, as they are weighted, of sums over B: weights of another scale than
// 1 must not change what is drawn.
void OutputLayer::WeighMasses(OutputBatch* batch) {
  const std::vector<float>& weights = batch->sample_weights;
  if (weights.empty()) return;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sum == 0) return batch->masses.clear();
  const auto scale = static_cast<float>(static_cast<double>(weights.size()) / sum);
  for (float& mass : batch->masses) {
    if (mass != kNoMass) mass *= scale;
  }
}

PartialSum OutputLayer::ForEachSampleOfLabel(const OutputBatch& batch,
                                             const RowGradientSink& take) const {
  const ActiveColumns& columns = batch.columns;
  const uint32_t samples = batch.hidden.rows;
  const float share = 1.0f / static_cast<float>(samples);
  std::vector<float> unit(OutputWidth(model_));
  for (uint32_t i = 0; i < samples; ++i) {
    const float* h = batch.hidden.row(i);
    const float norm = std::sqrt(kernels_.dot(OutputWidth(model_), h, h));
    if (norm == 0) continue;
    const float weighted = share * batch.WeightOf(i);
    std::transform(h, h + OutputWidth(model_), unit.begin(),
                   [&](float x) { return x * weighted / norm; });
    for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
      take(columns.rows[columns.label_columns[e]], unit.data(), share);
    }
  }
  return PartialSums(samples, OutputWidth(model_), synchronous_).Take();
}

RowGradientSink OutputLayer::Updates(float learning_rate) {
  return [this, learning_rate](uint32_t row, const float* g, float bias) {
    rows_.Update(row, learning_rate, g, bias);
  };
}

RowGradientSink OutputLayer::SampleUpdates(uint64_t samples, uint32_t pass) {
  const auto all = static_cast<float>(samples);
  return [this, all, pass, units = std::vector<float>(OutputWidth(model_))](
             uint32_t row, const float* mean, float share) mutable {
    std::transform(mean, mean + units.size(), units.begin(), [&](float x) { return x * all; });
    const auto count = static_cast<uint32_t>(std::lround(share * all));
    rows_.layer.AddToCentroid(row, units.data(), count, pass, kCentroidLength);
    rows_.Touch(row);
  };
}

void OutputLayer::FollowUpdates() {
  if (!rows_.index) return;
  stats_.Enter(Phase::kRehash);
  const double begin = ThreadCpuSeconds();
  rows_.index->Advance();
  stats_.CountRehash(ThreadCpuSeconds() - begin);
  stats_.Leave();
}

uint64_t OutputLayer::MemoryBytes() const {
  uint64_t bytes = rows_.layer.MemoryBytes() + search_.MemoryBytes();
  if (rows_.index) bytes += rows_.index->MemoryBytes();
  if (importance_) bytes += importance_->MemoryBytes();
  return bytes;
}

uint64_t OutputLayer::IndexRowBytes() const {
  return (rows_.index ? rows_.index->tables().RowBytes() : 0) +
         (importance_ ? ImportanceBuckets::kRowBytes : 0);
}

TopKReply OutputLayer::TopK(const TopKRequest& request) {
  return search_.Find(request, std::max(10 * request.k, 10 * builder_.candidates()));
}

std::vector<Probe> OutputLayer::MeasureRecall(const OutputBatch& batch, uint32_t samples) {
  if (samples == 0) return {};
  TopKRequest request;
  request.hidden = Matrix(samples, OutputWidth(model_));
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
      const uint32_t row = rows_.layer.map().Local(best.ids[e]);
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
