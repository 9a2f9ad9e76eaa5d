#include "tools/dslide/export/exported_rows.h"

#include <nlohmann/json.hpp>

#include "common/config/config_keys.h"
#include "common/config/value_scale.h"
#include "common/math/kernels.h"

namespace dslide {
namespace {

std::string_view BytesOf(const float* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(float)};
}

std::string_view BytesOf(const uint16_t* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(uint16_t)};
}

// A row of bf16 in the precision that is asked for. `wide`: [dim], scratch.
void WriteRow(const uint16_t* row, size_t dim, Precision precision, std::vector<float>* wide,
              const ByteSink& sink) {
  if (precision == Precision::kBf16) {
    sink(BytesOf(row, dim));
    return;
  }
  BestKernels().from_bf16(dim, row, wide->data());
  sink(BytesOf(wide->data(), dim));
}

}  // namespace

Result<ExportedRows> ExportedRows::Of(const Model& model) {
  if (model.arrays().weights.empty()) {
    return BadInput(
        "the model file has its neurons in int8 only; export the run directory, or a model file "
        "that was exported with --rows bf16");
  }
  DSLIDE_RETURN_IF_ERROR(model.CheckAll());
  return ExportedRows(model);
}

const uint16_t* ExportedRows::Weights(uint32_t label) const {
  return model_->arrays().weights.data() + size_t{model_->PositionOf(label)} * hidden();
}

void ExportedRows::WriteInput(Precision precision, const ByteSink& sink) const {
  const size_t width = input_width();
  const float divisor = ValueDivisor(model_->info().config.train);
  std::vector<float> wide(width);
  std::vector<uint16_t> scaled(width);
  for (size_t row = 0; row < input_rows(); ++row) {
    const uint16_t* stored = model_->arrays().input.data() + row * width;
    const bool is_bias = row == model_->info().features();
    if (is_bias || divisor == 1.0f) {
      WriteRow(stored, width, precision, &wide, sink);
      continue;
    }
    BestKernels().from_bf16(width, stored, wide.data());
    for (float& weight : wide) weight /= divisor;
    if (precision == Precision::kBf16) {
      BestKernels().to_bf16(width, wide.data(), scaled.data());
      sink(BytesOf(scaled.data(), width));
    } else {
      sink(BytesOf(wide.data(), width));
    }
  }
}

const uint16_t* ExportedRows::DenseRow(uint32_t row) const {
  return model_->arrays().input.data() + (input_rows() + row) * input_width();
}

void ExportedRows::WriteLayer(const DenseLayer& layer, Precision precision,
                              const ByteSink& sink) const {
  std::vector<float> wide(layer.in);
  for (uint32_t unit = 0; unit < layer.out; ++unit) {
    WriteRow(DenseRow(layer.first_row + unit * layer.unit_rows), layer.in, precision, &wide, sink);
  }
}

void ExportedRows::WriteLayerBias(const DenseLayer& layer, const ByteSink& sink) const {
  std::vector<float> wide(layer.out);
  WriteRow(DenseRow(layer.bias_row), layer.out, Precision::kFp32, &wide, sink);
}

void ExportedRows::WriteWeights(Precision precision, const ByteSink& sink) const {
  std::vector<float> wide(hidden());
  for (uint32_t label = 0; label < labels(); ++label) {
    WriteRow(Weights(label), hidden(), precision, &wide, sink);
  }
}

void ExportedRows::WriteBias(const ByteSink& sink) const {
  for (uint32_t label = 0; label < labels(); ++label) {
    sink(BytesOf(&model_->arrays().bias[model_->PositionOf(label)], 1));
  }
}

void ExportedRows::WriteWeightsWithBias(const ByteSink& sink) const {
  std::vector<float> wide(size_t{hidden()} + 1);
  for (uint32_t label = 0; label < labels(); ++label) {
    BestKernels().from_bf16(hidden(), Weights(label), wide.data());
    wide.back() = model_->arrays().bias[model_->PositionOf(label)];
    sink(BytesOf(wide.data(), wide.size()));
  }
}

std::string ExportedRows::ConfigJson() const {
  nlohmann::json config = nlohmann::json::object();
  for (const ConfigKey& key : ConfigKeys()) {
    config[key.FullName()] = key.field.format(model_->info().config);
  }
  return config.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace dslide
