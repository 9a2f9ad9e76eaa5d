#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "common/data/output_file.h"
#include "tools/dslide/export/exports.h"

namespace dslide {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors have their least byte first");

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // that readers take
constexpr uint64_t kAlignment = 8;

}  // namespace

Status WriteSafetensors(const ExportedRows& rows, Precision precision, const std::string& path) {
  using Json = nlohmann::ordered_json;
  uint64_t at = 0;
  Json header = Json::object();
  const auto add = [&](const std::string& name, Precision as, const std::vector<uint64_t>& shape) {
    uint64_t bytes = as == Precision::kBf16 ? sizeof(uint16_t) : sizeof(float);
    for (const uint64_t length : shape) bytes *= length;
    header[name] = {{"dtype", as == Precision::kBf16 ? "BF16" : "F32"},
                    {"shape", shape},
                    {"data_offsets", {at, at + bytes}}};
    at += bytes;
  };
  Json labels = Json::array();
  for (uint32_t label = 0; label < rows.labels(); ++label) {
    labels.push_back(rows.model().LabelName(label));
  }
  header["__metadata__"] = {{"labels", labels.dump()}, {"config", rows.ConfigJson()}};
  // The largest elements first: each tensor begins at a multiple of its element's size.
  add("bias", Precision::kFp32, {rows.labels()});
  const std::vector<DenseLayer> layers = rows.layers();
  for (size_t l = 0; l < layers.size(); ++l) {
    add(fmt::format("hidden{}_bias", l + 2), Precision::kFp32, {layers[l].out});
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    add(fmt::format("hidden{}", l + 2), precision, {layers[l].out, layers[l].in});
  }
  add("input", precision, {rows.input_rows(), rows.input_width()});
  add("weights", precision, {rows.labels(), rows.hidden()});
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  if (text.size() > kMostHeaderBytes) {
    return BadInput(
        fmt::format("{}: the names of {} labels do not fit into the header of a "
                    "safetensors file; export as .npz",
                    path, rows.labels()));
  }
  Result<OutputFile> file = OutputFile::Create(path);
  DSLIDE_RETURN_IF_ERROR(file);
  const uint64_t length = text.size();
  const ByteSink sink = [&](std::string_view bytes) { file->Write(bytes); };
  sink({reinterpret_cast<const char*>(&length), sizeof(length)});
  sink(text);
  rows.WriteBias(sink);
  for (const DenseLayer& layer : layers) rows.WriteLayerBias(layer, sink);
  for (const DenseLayer& layer : layers) rows.WriteLayer(layer, precision, sink);
  rows.WriteInput(precision, sink);
  rows.WriteWeights(precision, sink);
  return file->Finish();
}

}  // namespace dslide
