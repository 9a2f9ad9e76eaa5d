#include "common/model/model_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/math/int8/int8_scan.h"
#include "common/model/cells.h"
#include "common/run/silence.h"
#include "common/run/slot_rows.h"

namespace dslide {
namespace {

// The arrays of a model that is in memory.
struct Arrays {
  std::vector<uint16_t> input;
  std::vector<uint32_t> label_of, cell_ends, label_counts;
  std::vector<float> cell_means, cell_biases, bias;
  Int8Panels rows;
  std::vector<uint16_t> weights;

  explicit Arrays(uint32_t hidden) : rows(kInt8PanelRows, hidden) {}
  ModelArrays View() const {
    return {input,
            label_of,
            cell_ends,
            cell_means,
            cell_biases,
            bias,
            {rows.values(0), rows.panels() * rows.PanelBytes()},
            {rows.scales(0), rows.size()},
            weights,
            label_counts};
  }
};

// With the least bias of the others for the silent neurons: one of them would make the whole cell
// silent that it is in.
std::vector<float> HeardBiases(std::vector<float> biases) {
  float least = 0;
  for (const float bias : biases) {
    if (!IsSilent(bias)) least = std::min(least, bias);
  }
  for (float& bias : biases) bias = std::max(bias, least);
  return biases;
}

}  // namespace

ModelBuilder::ModelBuilder(ModelInfo info, std::shared_ptr<const Preprocessor> preprocessor,
                           const Kernels& kernels)
    : info_(std::move(info)),
      preprocessor_(std::move(preprocessor)),
      kernels_(kernels),
      input_(size_t{InputRowCount(info_.config.model)} * info_.input_width()),
      weights_(size_t{info_.labels()} * info_.hidden()),
      biases_(info_.labels()) {}

void ModelBuilder::SetInput(uint32_t feature, const float* weights) {
  kernels_.to_bf16(info_.input_width(), weights,
                   input_.data() + size_t{feature} * info_.input_width());
}

void ModelBuilder::SetNeuron(uint32_t label, const float* weights, float bias) {
  kernels_.to_bf16(info_.hidden(), weights, weights_.data() + size_t{label} * info_.hidden());
  biases_[label] = bias;
}

std::shared_ptr<const Model> ModelBuilder::Finish(const Options& options) && {
  const uint32_t labels = info_.labels();
  const uint32_t hidden = info_.hidden();
  const auto read = [&](uint32_t begin, uint32_t end, std::vector<float>* wide) {
    wide->resize(size_t{end - begin} * hidden);
    kernels_.from_bf16(wide->size(), weights_.data() + size_t{begin} * hidden, wide->data());
    return static_cast<const float*>(wide->data());
  };
  const uint32_t wanted = options.cells == 0 ? DefaultCells(labels) : options.cells;
  Cells cells =
      MakeCells(labels, hidden, read, HeardBiases(biases_), wanted, options.threads, kernels_);

  auto arrays = std::make_shared<Arrays>(hidden);
  arrays->input = std::move(input_);
  arrays->label_counts = std::move(label_counts_);
  arrays->cell_means = std::move(cells.means);
  arrays->cell_biases = std::move(cells.biases);
  // Neurons by cell, each cell from a panel's beginning on, by label within a cell.
  std::vector<uint32_t> next(arrays->cell_biases.size());
  for (const uint32_t cell : cells.cell_of) ++next[cell];
  uint32_t positions = 0;
  for (uint32_t& size : next) {
    const auto panels = (size + kInt8PanelRows - 1) / kInt8PanelRows;
    size = std::exchange(positions, positions + static_cast<uint32_t>(panels * kInt8PanelRows));
    arrays->cell_ends.push_back(positions);
  }
  arrays->label_of.assign(positions, kNoLabel);
  for (uint32_t label = 0; label < labels; ++label) {
    arrays->label_of[next[cells.cell_of[label]]++] = label;
  }

  arrays->bias.assign(positions, -std::numeric_limits<float>::infinity());
  arrays->rows.Resize(positions);
  if (!options.int8_only) arrays->weights.resize(size_t{positions} * hidden);
  std::vector<float> panel(kInt8PanelRows * size_t{hidden});
  for (uint32_t begin = 0; begin < positions; begin += kInt8PanelRows) {
    std::ranges::fill(panel, 0.0f);
    for (uint32_t r = 0; r < kInt8PanelRows; ++r) {
      const uint32_t label = arrays->label_of[begin + r];
      if (label == kNoLabel) continue;
      const uint16_t* from = weights_.data() + size_t{label} * hidden;
      kernels_.from_bf16(hidden, from, panel.data() + size_t{r} * hidden);
      arrays->bias[begin + r] = biases_[label];
      if (!options.int8_only) {
        std::copy_n(from, hidden, arrays->weights.data() + size_t{begin + r} * hidden);
      }
    }
    arrays->rows.Set(begin, kInt8PanelRows, panel.data(), kernels_);
  }
  const ModelArrays view = arrays->View();
  return std::make_shared<const Model>(std::move(info_), view, std::move(preprocessor_),
                                       std::move(arrays));
}

}  // namespace dslide
