#include "tests/server/model/output_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/math/kernels.h"
#include "common/run/combine.h"

namespace dslide {

OutputModel::OutputModel(const Config& config, uint32_t shards, std::vector<float> weights)
    : config_(config), random_(3) {
  query_.weights = std::move(weights);
  const std::vector<SlotId> slots = AllSlots(config);
  for (uint32_t s = 0; s < shards; ++s) {
    const size_t begin = s * slots.size() / shards;
    const size_t end = (s + 1) * slots.size() / shards;
    layers_.push_back(std::make_unique<OutputLayer>(
        config, std::span(slots).subspan(begin, end - begin), Purpose::kTraining, BestKernels()));
    layers_[s]->layer().Initialise(5, 0.6f, config.model.labels);
    for (uint32_t n = 0; n < config.model.labels; ++n) {
      const uint32_t row = layers_[s]->layer().map().Local(n);
      if (row == SlotMap::kNone) continue;
      layers_[s]->layer().row(row).scalars->bias = static_cast<float>(0.3 * random_.Normal());
    }
    if (NeuronIndex* index = layers_[s]->index()) index->tables().CatchUp();
  }
  query_.hidden = Matrix(kOutputSamples, config.model.hidden);
  for (float& h : query_.hidden.data) {
    h = std::max(0.0f, static_cast<float>(random_.Normal() + 0.5));
  }
  // The fourth sample has no labels.
  for (uint32_t i = 0; i < kOutputSamples; ++i) {
    std::set<uint32_t> labels;
    while (labels.size() < (i == 3 ? 0 : 1 + i % 3)) {
      labels.insert(static_cast<uint32_t>(random_.Below(config.model.labels)));
    }
    query_.labels.ids.insert(query_.labels.ids.end(), labels.begin(), labels.end());
    query_.labels.EndRow();
    query_.label_totals.push_back(static_cast<uint32_t>(labels.size()));
  }
}

std::vector<double> OutputModel::Parameters() {
  const uint32_t dim = config_.model.hidden;
  std::vector<double> all(config_.model.labels * (dim + 1));
  for (auto& layer : layers_) {
    for (uint32_t n = 0; n < config_.model.labels; ++n) {
      const uint32_t local = layer->layer().map().Local(n);
      if (local == SlotMap::kNone) continue;
      const RowView row = layer->layer().row(local);
      std::copy_n(row.weights, dim, all.begin() + n * (dim + 1));
      all[n * (dim + 1) + dim] = row.scalars->bias;
    }
  }
  return all;
}

Matrix OutputModel::Step() {
  const std::vector<double> w = Parameters();
  const std::vector<double> h(query_.hidden.data.begin(), query_.hidden.data.end());
  std::vector<ActiveReply> parts;
  batches_.resize(layers_.size());
  for (size_t s = 0; s < layers_.size(); ++s) {
    parts.push_back(layers_[s]->Query(query_, {1, config_.model.negatives}, &batches_[s]));
  }
  for (uint32_t i = 0; i < kOutputSamples; ++i) weights_.push_back(WeightsOf(i));
  const ActiveReply merged = MergeActive(std::move(parts));
  const std::vector<float> normaliser = LogNormaliser(merged);
  for (uint32_t i = 0; i < kOutputSamples; ++i) {
    CHECK(merged.active[i] == weights_[i].size());
    if (config_.model.loss == Loss::kSigmoid) {
      CHECK(merged.loss[i] == doctest::Approx(SampleLoss(i, w, h)).epsilon(1e-5));
    } else if (LabelSmoothing(config_.train) == 0) {
      const double loss = normaliser[i] - merged.target_logit[i];
      if (query_.label_totals[i] > 0) {
        CHECK(loss == doctest::Approx(SampleLoss(i, w, h)).epsilon(1e-5));
      }
    }
  }
  std::vector<PartialSum> gradients;
  for (size_t s = 0; s < layers_.size(); ++s) {
    gradients.push_back(layers_[s]->Gradient(&batches_[s], normaliser, layers_[s]->Updates(1.0f)));
  }
  return InFloats(SumPartials(std::move(gradients)));
}

double OutputModel::Loss(const std::vector<double>& w, const std::vector<double>& h) const {
  double sum = 0;
  for (uint32_t i = 0; i < kOutputSamples; ++i) {
    const double weight = query_.weights.empty() ? 1.0 : double{query_.weights[i]};
    sum += weight * SampleLoss(i, w, h);
  }
  return sum / kOutputSamples;
}

std::vector<double> OutputModel::Hidden() const {
  return {query_.hidden.data.begin(), query_.hidden.data.end()};
}

// The rows by the number of tables in which they share the sample's bucket: all before the cut, and
// at the cut each with the same chance.
std::vector<double> OutputModel::CandidateChances(uint32_t i, size_t executor) const {
  OutputLayer& layer = *layers_[executor];
  const HashTables& tables = layer.index()->tables().tables();
  const SlotMap& map = layer.layer().map();
  std::vector<BucketCode> codes(tables.size());
  layer.index()->tables().functions().Codes(1, query_.hidden.row(i), config_.model.hidden,
                                            codes.data());
  std::vector<uint32_t> shared(map.rows());
  std::vector<uint32_t> ranked;  // counts of the rows that share a bucket
  for (uint32_t row = 0; row < map.rows(); ++row) {
    if (map.Global(row) == SlotMap::kNone) continue;
    for (uint32_t t = 0; t < tables.size(); ++t) shared[row] += tables.Code(t, row) == codes[t];
    if (shared[row] > 0) ranked.push_back(shared[row]);
  }
  std::sort(ranked.rbegin(), ranked.rend());
  const auto expected = static_cast<size_t>(std::lround(
      static_cast<double>(config_.model.candidates * map.size()) / config_.model.labels));
  const uint32_t cut = ranked.size() <= expected ? 0 : ranked[expected - 1];
  const auto above = std::ranges::count_if(ranked, [&](uint32_t n) { return n > cut; });
  const auto at = std::ranges::count(ranked, cut);
  std::vector<double> chances(map.rows());
  for (uint32_t row = 0; row < map.rows(); ++row) {
    if (shared[row] > cut) chances[row] = 1;
    if (cut > 0 && shared[row] == cut) {
      chances[row] =
          (static_cast<double>(expected) - static_cast<double>(above)) / static_cast<double>(at);
    }
  }
  return chances;
}

// The neurons of one executor that a sample is scored against with active = lsh. No mass has been
// observed yet: all neurons have the same one.
void OutputModel::AddHashed(uint32_t i, size_t executor, Weights* weights) const {
  const ActiveColumns& columns = batches_[executor].columns;
  const SlotMap& map = layers_[executor]->layer().map();
  const bool own_only = config_.model.sharing == Sharing::kSample;
  const double even =
      static_cast<double>(config_.model.negatives) / static_cast<double>(config_.model.labels);
  std::vector<double> left_out(map.rows(), 1 - even);  // probability of not being in the set
  for (uint32_t k = own_only ? i : 0; k < (own_only ? i + 1 : kOutputSamples); ++k) {
    const std::vector<double> chances = CandidateChances(k, executor);
    for (uint32_t row = 0; row < map.rows(); ++row) left_out[row] *= 1 - chances[row];
  }
  const auto list = [](const std::vector<uint32_t>& columns_of, const std::vector<uint32_t>& ends,
                       uint32_t k) {
    return std::set(columns_of.begin() + ends[k], columns_of.begin() + ends[k + 1]);
  };
  const std::set<uint32_t> hits = list(columns.hit_columns, columns.hit_offsets, i);
  for (uint32_t u = 0; u < columns.rows.size(); ++u) {
    if (own_only && !columns.drawn[u] && !hits.contains(u)) continue;
    (*weights)[map.Global(columns.rows[u])] = 1 / (1 - left_out[columns.rows[u]]);
  }
  for (uint32_t k = own_only ? i : 0; k < (own_only ? i + 1 : kOutputSamples); ++k) {
    for (const uint32_t u : list(columns.label_columns, columns.label_offsets, k)) {
      (*weights)[map.Global(columns.rows[u])] = 1.0;
    }
  }
}

Weights OutputModel::WeightsOf(uint32_t i) const {
  Weights weights;
  for (size_t s = 0; s < layers_.size(); ++s) {
    if (config_.model.active == ActiveSet::kLsh) {
      AddHashed(i, s, &weights);
      continue;
    }
    const ActiveColumns& columns = batches_[s].columns;
    const SlotMap& map = layers_[s]->layer().map();
    // No mass has been observed yet: all neurons are drawn with one probability.
    const double even =
        static_cast<double>(config_.model.labels) / static_cast<double>(config_.model.negatives);
    const bool is_all = config_.model.active == ActiveSet::kAll;
    for (uint32_t u = 0; u < columns.rows.size(); ++u) {
      weights[map.Global(columns.rows[u])] = is_all || u < columns.labelled ? 1.0 : even;
    }
  }
  return weights;
}

double OutputModel::SampleLoss(uint32_t i, const std::vector<double>& w,
                               const std::vector<double>& h) const {
  const uint32_t dim = config_.model.hidden;
  const auto logit = [&](uint32_t n) {
    double z = w[n * (dim + 1) + dim];
    for (uint32_t j = 0; j < dim; ++j) z += w[n * (dim + 1) + j] * h[i * dim + j];
    return z;
  };
  const auto labels = query_.labels.Ids(i);
  double sum = 0, target = 0;
  if (config_.model.loss == Loss::kSigmoid) {
    for (const auto& [n, weight] : weights_[i]) sum += weight * std::log1p(std::exp(logit(n)));
    for (const uint32_t n : labels) target += logit(n);
    return sum - target;
  }
  if (labels.empty()) return 0;
  const double smoothing = LabelSmoothing(config_.train);
  for (const auto& [n, weight] : weights_[i]) {
    sum += weight * std::exp(logit(n));
    target += smoothing / config_.model.labels * weight * logit(n);
  }
  for (const uint32_t n : labels) {
    target += (1 - smoothing) / static_cast<double>(labels.size()) * logit(n);
  }
  return std::log(sum) - target;
}

}  // namespace dslide
