#include "common/model/model.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/model/name_ranking.h"

namespace dslide {

Model::Model(ModelInfo info, const ModelArrays& arrays,
             std::shared_ptr<const Preprocessor> preprocessor, std::shared_ptr<const void> owner,
             std::shared_ptr<const BlockChecks> checks)
    : info_(std::move(info)),
      arrays_(arrays),
      position_of_(info_.labels()),
      cell_rows_(kInt8PanelRows, info_.hidden()),
      preprocessor_(std::move(preprocessor)),
      owner_(std::move(owner)),
      checks_(std::move(checks)) {
  for (uint32_t p = 0; p < positions(); ++p) {
    if (arrays_.label_of[p] == kNoLabel) continue;
    position_of_[arrays_.label_of[p]] = p;
    if (!IsSilent(arrays_.bias[p])) ++live_labels_;
  }
  const auto name_of = [this](uint32_t label) -> const std::string& {
    return info_.label_names[label];
  };
  by_name_.resize(info_.label_names.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::ranges::stable_sort(by_name_, {}, name_of);
  if (const uint32_t rows = DenseRowCount(info_.config.model); rows > 0) {
    Matrix dense(rows, info_.input_width());
    BestKernels().from_bf16(
        dense.data.size(),
        arrays_.input.data() + size_t{FirstDenseId(info_.config.model)} * info_.input_width(),
        dense.data.data());
    dense_ = std::make_shared<const DenseWeights>(info_.config.model, std::move(dense));
  }
  cell_rows_.Resize(cells());
  cell_rows_.Set(0, cells(), arrays_.cell_means.data(), BestKernels());
  cell_biases_.assign(arrays_.cell_biases.begin(), arrays_.cell_biases.end());
  cell_biases_.resize(cell_rows_.size());
}

std::string Model::LabelName(uint32_t label) const {
  if (preprocessor_ != nullptr) return preprocessor_->label_names()[label];
  return info_.label_names.empty() ? std::to_string(label) : info_.label_names[label];
}

const std::vector<std::string>* Model::label_uris() const {
  return preprocessor_ == nullptr ? nullptr : preprocessor_->label_uris();
}

std::optional<uint32_t> Model::LabelId(const std::string& name) const {
  if (preprocessor_ != nullptr) return preprocessor_->LabelId(name);
  const auto name_of = [this](uint32_t label) -> const std::string& {
    return info_.label_names[label];
  };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  if (found != by_name_.end() && info_.label_names[*found] == name) return *found;
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && id < info_.labels() ? std::optional(id) : std::nullopt;
}

std::vector<uint32_t> Model::OwnLabels(std::span<const uint32_t> features) const {
  if (preprocessor_ != nullptr) return preprocessor_->OwnLabels(features);
  return {features.begin(), features.end()};
}

std::shared_ptr<const Model> Model::WithProbes(uint32_t probes, float recall) const {
  ModelInfo info = info_;
  info.probes = probes;
  info.index_recall = recall;
  return std::make_shared<const Model>(std::move(info), arrays_, preprocessor_, owner_, checks_);
}

std::shared_ptr<const Model> Model::WithLogitAdjustment(float weight) const {
  DSLIDE_CHECK(arrays_.label_counts.size() == info_.labels());
  const BiasShift shift(arrays_.label_counts, weight);
  struct Adjusted {
    std::shared_ptr<const void> owner;
    std::vector<float> bias, cell_biases;
  };
  auto adjusted = std::make_shared<Adjusted>();
  adjusted->owner = owner_;
  adjusted->bias.assign(arrays_.bias.begin(), arrays_.bias.end());
  adjusted->cell_biases.assign(arrays_.cell_biases.begin(), arrays_.cell_biases.end());
  for (uint32_t cell = 0; cell < cells(); ++cell) {
    double shifts = 0;
    uint32_t labels = 0;
    for (uint32_t p = CellBegin(cell); p < CellEnd(cell); ++p) {
      const uint32_t label = arrays_.label_of[p];
      if (label == kNoLabel || IsSilent(arrays_.bias[p])) continue;
      adjusted->bias[p] -= shift[label];
      shifts += shift[label];
      ++labels;
    }
    if (labels > 0) adjusted->cell_biases[cell] -= static_cast<float>(shifts / labels);
  }
  ModelArrays arrays = arrays_;
  arrays.bias = adjusted->bias;
  arrays.cell_biases = adjusted->cell_biases;
  arrays.label_counts = {};
  ModelInfo info = info_;
  info.adjustment = {};
  return std::make_shared<const Model>(std::move(info), arrays, preprocessor_, std::move(adjusted),
                                       checks_);
}

std::shared_ptr<const Model> Model::WithNameRanking(
    std::shared_ptr<const NameRanking> ranking) const {
  ModelInfo info = info_;
  info.name_ranking = std::move(ranking);
  return std::make_shared<const Model>(std::move(info), arrays_, preprocessor_, owner_, checks_);
}

std::shared_ptr<const Model> Model::WithNotes(std::string notes) const {
  ModelInfo info = info_;
  info.notes = std::move(notes);
  return std::make_shared<const Model>(std::move(info), arrays_, preprocessor_, owner_, checks_);
}

std::shared_ptr<const Model> AdjustedModel(std::shared_ptr<const Model> model, float rare) {
  const LogitAdjustment adjustment = model->info().adjustment;
  float weight = adjustment.At(rare);
  if (const auto names = model->info().name_ranking; names != nullptr) {
    weight = adjustment.usual;
    model = model->WithNameRanking(
        std::make_shared<const NameRanking>(names->WithRare(adjustment.At(rare) - weight)));
  }
  if (weight == 0.0f || model->arrays().label_counts.empty()) return model;
  return model->WithLogitAdjustment(weight);
}

uint32_t DefaultCells(uint32_t labels) {
  constexpr uint32_t kNeurons = 32;  // of a cell: fewer find more, but cost more to look through
  constexpr uint32_t kMost = 4096;
  return std::clamp(labels / kNeurons, 1u, kMost);
}

}  // namespace dslide
