#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "common/data/numbers/npy_header.h"
#include "common/data/numbers/npz_archive_writer.h"
#include "tools/dslide/export/exports.h"

namespace dslide {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays have their least byte first");

// One array of the archive.
struct NpzMember {
  std::string name;
  std::string npy;  // header of the array
  std::function<void(const ByteSink&)> write;

  void Write(const ByteSink& sink) const {
    sink(npy);
    write(sink);
  }
};

NpzMember Floats(const std::string& name, uint64_t rows, uint64_t columns,
                 std::function<void(const ByteSink&)> write) {
  const std::string shape =
      columns == 0 ? fmt::format("{},", rows) : fmt::format("{}, {}", rows, columns);
  return {name, NpyHeaderText("<f4", shape), std::move(write)};
}

// Texts of one length, filled up with zeros.
NpzMember LabelNames(const Model& model) {
  const uint32_t count = model.info().labels();
  size_t longest = 1;
  for (uint32_t label = 0; label < count; ++label) {
    longest = std::max(longest, model.LabelName(label).size());
  }
  return {"labels", NpyHeaderText(fmt::format("|S{}", longest), fmt::format("{},", count)),
          [&model, count, longest](const ByteSink& sink) {
            for (uint32_t label = 0; label < count; ++label) {
              std::string name = model.LabelName(label);
              name.resize(longest);
              sink(name);
            }
          }};
}

NpzMember Text(const std::string& name, const std::string& text) {
  return {name, NpyHeaderText(fmt::format("|S{}", text.size()), ""),
          [text](const ByteSink& sink) { sink(text); }};
}

}  // namespace

Status WriteNpz(const ExportedRows& rows, const std::string& path) {
  std::vector<NpzMember> members = {
      Floats("input", rows.input_rows(), rows.input_width(),
             [&](const ByteSink& sink) { rows.WriteInput(Precision::kFp32, sink); }),
      Floats("weights", rows.labels(), rows.hidden(),
             [&](const ByteSink& sink) { rows.WriteWeights(Precision::kFp32, sink); }),
      Floats("bias", rows.labels(), 0, [&](const ByteSink& sink) { rows.WriteBias(sink); }),
      LabelNames(rows.model()),
      Text("config", rows.ConfigJson()),
  };
  int number = 2;  // of the hidden layer
  for (const DenseLayer& layer : rows.layers()) {
    members.push_back(Floats(
        fmt::format("hidden{}", number), layer.out, layer.in,
        [&rows, layer](const ByteSink& sink) { rows.WriteLayer(layer, Precision::kFp32, sink); }));
    members.push_back(
        Floats(fmt::format("hidden{}_bias", number++), layer.out, 0,
               [&rows, layer](const ByteSink& sink) { rows.WriteLayerBias(layer, sink); }));
  }
  Result<NpzArchiveWriter> archive =
      NpzArchiveWriter::Create(path, NpzArchiveWriter::Packing::kStored);
  DSLIDE_RETURN_IF_ERROR(archive);
  for (const NpzMember& member : members) {
    Result<ScratchFile> array = archive->NewArray();
    DSLIDE_RETURN_IF_ERROR(array);
    member.Write([&](std::string_view bytes) { array->Write(bytes); });
    DSLIDE_RETURN_IF_ERROR(archive->Add(member.name, *std::move(array)));
  }
  return archive->Finish();
}

}  // namespace dslide
