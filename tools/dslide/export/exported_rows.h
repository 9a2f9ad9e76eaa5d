// A model's rows in the order of their ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/model/model.h"

namespace dslide {

// Takes the next bytes of a file.
using ByteSink = std::function<void(std::string_view bytes)>;

// Views a model, which must outlive it. Immutable.
class ExportedRows {
 public:
  // A model whose neurons are in int8 only is an error (kBadInput), and so is a damaged model file.
  static Result<ExportedRows> Of(const Model& model);

  const Model& model() const { return *model_; }
  uint32_t hidden() const { return model_->info().hidden(); }
  uint32_t labels() const { return model_->info().labels(); }
  uint32_t input_width() const { return model_->info().input_width(); }
  size_t input_rows() const { return size_t{model_->info().features()} + 1; }
  // The dense layers (common/run/dense_layers.h).
  std::vector<DenseLayer> layers() const { return DenseLayersOf(model_->info().config.model); }

  // The arrays row by row, least byte first: [(D + 1) x H_1], row D the bias; [N x H]; [N]. The
  // features' rows are divided by train.normalize, so that they apply to values as data files have
  // them.
  void WriteInput(Precision precision, const ByteSink& sink) const;
  void WriteWeights(Precision precision, const ByteSink& sink) const;
  void WriteBias(const ByteSink& sink) const;  // fp32
  // Of a dense layer: [H_l x H_(l-1)]; [H_l] fp32.
  void WriteLayer(const DenseLayer& layer, Precision precision, const ByteSink& sink) const;
  void WriteLayerBias(const DenseLayer& layer, const ByteSink& sink) const;
  // Each neuron's weights with its bias behind them: [N x (H + 1)] fp32.
  void WriteWeightsWithBias(const ByteSink& sink) const;

  // All keys of the run's configuration as a JSON object, "section.key": "value", as JSON text.
  std::string ConfigJson() const;

 private:
  explicit ExportedRows(const Model& model) : model_(&model) {}

  const uint16_t* Weights(uint32_t label) const;
  const uint16_t* DenseRow(uint32_t row) const;

  const Model* model_;
};

}  // namespace dslide
