#include "tests/server/model/scorer_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "common/base/random.h"
#include "common/run/combine.h"
#include "server/model/dense_scorer.h"
#include "server/model/list_scorer.h"

namespace dslide {

ScorerModel::ScorerModel(const Config& config, const std::vector<uint32_t>& slots)
    : config_(config) {
  for (const uint32_t s : slots) slots_.push_back({s});
  const SlotMap map(config.model.labels, config.cluster.slots, slots_);
  for (uint32_t row = 0; row < map.rows(); ++row) {
    if (map.Global(row) != SlotMap::kNone) rows_.push_back(row);
  }
}

void ScorerModel::SetBatch(std::vector<ScorerSample> samples, const std::vector<uint32_t>& draws,
                           bool own_only) {
  samples_ = std::move(samples);
  draws_ = std::set(draws.begin(), draws.end());
  own_only_ = own_only;
  columns_ = ActiveColumns();
  for (const ScorerSample& sample : samples_) {
    for (const uint32_t row : sample.labels) columns_.label_columns.push_back(ColumnOf(row));
    columns_.label_offsets.push_back(static_cast<uint32_t>(columns_.label_columns.size()));
  }
  columns_.labelled = static_cast<uint32_t>(columns_.rows.size());
  labels_ = std::set(columns_.rows.begin(), columns_.rows.end());
  for (const ScorerSample& sample : samples_) {
    for (const uint32_t row : sample.hits) {
      columns_.hit_columns.push_back(ColumnOf(row));
      columns_.hit_weights.push_back(kHitWeight);
    }
    columns_.hit_offsets.push_back(static_cast<uint32_t>(columns_.hit_columns.size()));
  }
  for (const uint32_t row : draws_) {
    const uint32_t column = ColumnOf(row);
    columns_.drawn[column] = 1;
    if (own_only || !labels_.contains(row)) columns_.weights[column] = WeightOfDraw(row);
  }
  columns_.draws = static_cast<uint32_t>(draws_.size());
  Random random(17);
  hidden_ = Matrix(static_cast<uint32_t>(samples_.size()), config_.model.hidden);
  for (float& h : hidden_.data) h = std::max(0.0f, static_cast<float>(random.Normal() + 0.5));
}

ScorerResult ScorerModel::Run(const Config& config,
                              const std::vector<double>& log_normaliser) const {
  OutputRows rows = MakeRows(config);
  EngineStats stats;
  std::unique_ptr<Scorer> scorer;
  if (own_only_) {
    scorer = std::make_unique<ListScorer>(config, &rows, BestKernels(), &stats);
  } else {
    scorer = std::make_unique<DenseScorer>(config, &rows, BestKernels(), &stats);
  }
  OutputBatch batch;
  batch.hidden = hidden_;
  batch.columns = columns_;
  for (const ScorerSample& sample : samples_) batch.label_totals.push_back(Total(sample));
  ScorerResult result;
  scorer->Score(&batch, &result.reply);
  result.log_normaliser.assign(log_normaliser.begin(), log_normaliser.end());
  PartialSums partial(hidden_.rows, hidden_.cols, false);
  scorer->Gradient(
      &batch, result.log_normaliser,
      [&](uint32_t row, const float* g, float bias) { rows.Update(row, kRate, g, bias); },
      &partial);
  result.hidden_gradient = InFloats(partial.Take());
  result.after = Parameters(&rows.layer);
  return result;
}

std::vector<double> ScorerModel::LogNormalisers(double others) const {
  std::vector<double> normalisers;
  const auto w = InitialParameters();
  for (size_t i = 0; i < samples_.size(); ++i) {
    double sum = 0;
    for (const auto& [row, weight] : WeightsOf(i)) sum += weight * std::exp(Logit(w, i, row));
    normalisers.push_back(sum > 0 ? std::log((1 + others) * sum) : 0.0);
  }
  return normalisers;
}

void ScorerModel::Check(const ScorerResult& result, const std::vector<double>& log_normaliser,
                        double share, double ulp) const {
  const auto w = InitialParameters();
  const size_t dim = config_.model.hidden;
  const double scale = 1.0 / static_cast<double>(samples_.size());
  const bool softmax = config_.model.loss == Loss::kSoftmax;
  auto slope = std::vector(w.size(), std::vector<double>(dim + 1));
  auto slope_error = slope;
  for (size_t i = 0; i < samples_.size(); ++i) {
    CAPTURE(i);
    const ScorerSample& sample = samples_[i];
    const auto weights = WeightsOf(i);
    const std::set<uint32_t> labels(sample.labels.begin(), sample.labels.end());
    const double total = Total(sample);
    double sum = 0, target = 0, loss = 0, error = 0, loss_error = 0;
    std::vector<double> dh(dim), dh_error(dim);
    for (const auto& [row, weight] : weights) error = std::max(error, share * Terms(w, i, row));
    for (const auto& [row, weight] : weights) {
      const double z = Logit(w, i, row);
      const bool is_label = labels.contains(row);
      sum += weight * std::exp(z);
      if (is_label) target += z / total;
      loss += weight * std::log1p(std::exp(z)) - (is_label ? z : 0.0);
      loss_error += (weight + is_label) * error + 1e-6 * std::abs(z);

      double probability, delta;
      if (softmax) {
        probability = total > 0 ? weight * std::exp(z - log_normaliser[i]) : 0.0;
        delta = probability;
        if (total > 0)
          delta -= double{LabelSmoothing(config_.train)} / config_.model.labels * weight;
        if (is_label) delta -= (1 - double{LabelSmoothing(config_.train)}) / total;
      } else {
        probability = weight / (1 + std::exp(-z));
        delta = probability - is_label;
      }
      // The probability is off by the logit's error; delta and operands are rounded.
      const double off = 2 * error * probability + share * std::abs(delta);
      for (size_t j = 0; j <= dim; ++j) {
        const double h = j < dim ? double{hidden_.row(i)[j]} : 1.0;
        slope[row][j] += scale * delta * h;
        slope_error[row][j] += scale * (off + share * std::abs(delta)) * h;
        if (j == dim) continue;
        dh[j] += scale * delta * w[row][j];
        dh_error[j] += scale * (off + share * std::abs(delta)) * std::abs(w[row][j]);
      }
    }
    const ActiveReply& reply = result.reply;
    CHECK(reply.active[i] == weights.size());
    if (softmax) {
      const double got = double{reply.sum_exp[i]} * std::exp(double{reply.max[i]});
      if (sum > 0) CHECK(std::abs(std::log(got / sum)) < error + 1e-6);
      if (sum == 0) CHECK(reply.sum_exp[i] == 0);
      CHECK(std::abs(reply.target_logit[i] - target) < error + 1e-6);
    } else {
      CHECK(std::abs(reply.loss[i] - loss) <= loss_error);
    }
    CHECK(Within(result.hidden_gradient.row(i), dh, dh_error));
  }
  bool near = true;
  for (uint32_t row = 0; row < w.size(); ++row) {
    std::vector<double> after(dim + 1);
    for (size_t j = 0; j <= dim; ++j) {
      after[j] = w[row][j] - kRate * slope[row][j];
      if (j < dim) slope_error[row][j] += ulp * std::abs(after[j]);
    }
    near = near && Within(result.after[row].data(), after, slope_error[row]);
    const bool column =
        std::find(columns_.rows.begin(), columns_.rows.end(), row) != columns_.rows.end();
    if (!column) CHECK(std::equal(w[row].begin(), w[row].end(), result.after[row].begin()));
  }
  CHECK(near);
}

uint32_t ScorerModel::ColumnOf(uint32_t row) {
  const auto at = std::find(columns_.rows.begin(), columns_.rows.end(), row);
  if (at == columns_.rows.end()) {
    columns_.rows.push_back(row);
    columns_.drawn.push_back(0);
    columns_.weights.push_back(1.0f);
    return static_cast<uint32_t>(columns_.rows.size() - 1);
  }
  return static_cast<uint32_t>(at - columns_.rows.begin());
}

uint32_t ScorerModel::Total(const ScorerSample& sample) {
  return static_cast<uint32_t>(sample.labels.size()) + sample.elsewhere;
}

OutputRows ScorerModel::MakeRows(const Config& config) const {
  Layer layer(LayerKind::kOutput, config,
              SlotMap(config.model.labels, config.cluster.slots, slots_), Purpose::kTraining,
              BestKernels());
  layer.Initialise(5, 0.6f, config.model.labels);
  Random random(3);
  std::vector<uint8_t> bytes(layer.RowBytes());
  for (const uint32_t row : rows_) {
    layer.StoreRow(row, bytes.data());
    RowScalars scalars;
    scalars.bias = static_cast<float>(0.3 * random.Normal());
    std::memcpy(bytes.data(), &scalars, sizeof(scalars));
    layer.LoadRow(row, bytes.data());
  }
  return {std::move(layer), {}};
}

std::vector<std::vector<float>> ScorerModel::Parameters(Layer* layer) const {
  std::vector<std::vector<float>> all(layer->map().rows());
  for (uint32_t row = 0; row < all.size(); ++row) {
    all[row].resize(layer->dim());
    layer->Gather({&row, 1}, all[row].data());
    all[row].push_back(layer->bias(row));
  }
  return all;
}

ScorerModel::AllParameters ScorerModel::InitialParameters() const {
  OutputRows rows = MakeRows(config_);
  AllParameters all;
  for (const auto& row : Parameters(&rows.layer)) all.emplace_back(row.begin(), row.end());
  return all;
}

std::map<uint32_t, double> ScorerModel::WeightsOf(size_t i) const {
  std::set<uint32_t> own = labels_;
  if (own_only_) {
    own = std::set(samples_[i].labels.begin(), samples_[i].labels.end());
    own.insert(samples_[i].hits.begin(), samples_[i].hits.end());
  }
  std::map<uint32_t, double> weights;
  for (const uint32_t row : draws_) {
    if (!own.contains(row)) weights[row] = double{WeightOfDraw(row)};
  }
  for (const uint32_t row : own) weights[row] = 1;
  if (!own_only_) return weights;
  for (const uint32_t row : samples_[i].hits) weights[row] = double{kHitWeight};
  for (const uint32_t row : samples_[i].labels) weights[row] = 1;
  return weights;
}

double ScorerModel::Logit(const AllParameters& w, size_t i, uint32_t row) const {
  double z = w[row].back();
  for (uint32_t j = 0; j < hidden_.cols; ++j) z += w[row][j] * double{hidden_.row(i)[j]};
  return z;
}

double ScorerModel::Terms(const AllParameters& w, size_t i, uint32_t row) const {
  double sum = std::abs(w[row].back());
  for (uint32_t j = 0; j < hidden_.cols; ++j) {
    sum += std::abs(w[row][j]) * double{hidden_.row(i)[j]};
  }
  return sum;
}

bool ScorerModel::Within(const float* got, const std::vector<double>& expected,
                         const std::vector<double>& error) {
  for (size_t j = 0; j < expected.size(); ++j) {
    if (!(std::abs(double{got[j]} - expected[j]) <= error[j] + 1e-6)) return false;
  }
  return true;
}

void ForEachLoss(uint32_t labels, uint32_t hidden, Sharing sharing,
                 const std::function<void(const Config&)>& check) {
  Config config = SmallConfig(50, labels, hidden);
  config.model.sharing = sharing;
  config.model.active = sharing == Sharing::kSample ? ActiveSet::kLsh : ActiveSet::kMass;
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    for (const float smoothing : {0.0f, 0.2f}) {
      CAPTURE(static_cast<int>(loss));
      CAPTURE(smoothing);
      config.model.loss = loss;
      config.train.label_smoothing = smoothing;
      check(config);
    }
  }
}

}  // namespace dslide
