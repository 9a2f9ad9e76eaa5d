// dslide export: a trained model as one file.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "common/data/output_file.h"
#include "common/model/model_file.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/export/exports.h"
#include "tools/dslide/model/format_options.h"
#include "tools/dslide/model/model_argument.h"
#include "tools/dslide/model/model_source.h"

namespace dslide {
namespace {

enum class Format { kModel, kNpz, kSafetensors, kFaiss, kVectors, kBinaryVectors };

Result<Format> FormatOf(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".dslide") return Format::kModel;
  if (ending == ".npz") return Format::kNpz;
  if (ending == ".safetensors") return Format::kSafetensors;
  if (ending == ".faiss") return Format::kFaiss;
  if (ending == ".txt") return Format::kVectors;
  if (ending == ".bin") return Format::kBinaryVectors;
  return BadInput(
      fmt::format("--to {}: must end in .dslide, .npz, .safetensors, .faiss, .txt or .bin", path));
}

// The values of --rows that a format has, the default first.
std::vector<std::string> RowsOf(Format format) {
  if (format == Format::kModel) return {"bf16", "int8"};
  if (format == Format::kSafetensors) return {"bf16", "fp32"};
  return {"fp32"};
}

Status Write(const Model& model, Format format, const std::string& rows, const std::string& to) {
  if (format == Format::kModel) return WriteModelFile(model, to);
  if (format == Format::kVectors || format == Format::kBinaryVectors) {
    return WriteWord2Vec(model, format == Format::kBinaryVectors, to);
  }
  const Result<ExportedRows> dense = ExportedRows::Of(model);
  DSLIDE_RETURN_IF_ERROR(dense);
  if (format == Format::kNpz) return WriteNpz(*dense, to);
  if (format == Format::kFaiss) return WriteFaiss(*dense, to);
  return WriteSafetensors(*dense, rows == "fp32" ? Precision::kFp32 : Precision::kBf16, to);
}

Status Export(const ParsedArguments& arguments) {
  const std::string to = arguments.Get("to");
  const Result<Format> known = FormatOf(to);
  DSLIDE_RETURN_IF_ERROR(known);
  const Format format = *known;
  const std::vector<std::string> all_rows = RowsOf(format);
  const std::string rows = arguments.Has("rows") ? arguments.Get("rows") : all_rows.front();
  if (std::ranges::find(all_rows, rows) == all_rows.end()) {
    return BadInput(
        fmt::format("--rows {}: must be {} for {}", rows, Joined(all_rows, " or "), to));
  }
  const Result<NamedModel> named = ModelFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(named);
  const std::string& from = named->path;
  if (format == Format::kModel && IsModelFile(from)) {
    return BadInput(fmt::format("{} is a model file already; name the run directory", from));
  }
  if (format != Format::kModel && arguments.Has("data")) {
    return BadInput(fmt::format(
        "--data {}: {} gets no index that samples would measure; leave it out, or write a .dslide",
        arguments.Get("data"), to));
  }
  const Result<std::string> data = InputPath(arguments.Get("data"));
  DSLIDE_RETURN_IF_ERROR(data);
  DSLIDE_RETURN_IF_ERROR(CheckOutputs({from, *data}, {{"to", to}}));
  DSLIDE_RETURN_IF_ERROR(CheckRegularOutput(to, "a model"));
  ModelSourceOptions options;
  options.int8_only = rows == "int8";
  options.index = format == Format::kModel;
  options.data = *data;
  const Result<NamedFormat> data_format = NamedFormatFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(data_format);
  options.format = *data_format;
  options.has_data = true;
  if (format == Format::kModel) options.rare.reset();
  options.say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const auto start = std::chrono::steady_clock::now();
  const auto model = LoadModel(from, options);
  DSLIDE_RETURN_IF_ERROR(model);
  DSLIDE_RETURN_IF_ERROR(Write(**model, format, rows, to));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(stderr, "{}: {:.1f} MB in {:.1f} s\n", to,
             static_cast<double>(std::filesystem::file_size(to)) / (1 << 20), seconds);
  return {};
}

}  // namespace

int ExportCommand(int argc, char** argv) {
  CommandLine line(
      "dslide export MODEL --to FILE [options]",
      "Writes a trained model as one file: by its name for `dslide` and Python "
      "(.dslide), NumPy (.npz),\nPyTorch (.safetensors) or faiss (.faiss), or its word vectors in "
      "word2vec's text (.txt) or binary\n(.bin) format. A .dslide has "
      "features' rows in bf16, and neurons' in\nbf16 and int8. `--rows int8` leaves "
      "out the neurons' bf16: a smaller file, whose scores are a little\noff.");
  DeclareModel(&line);
  line.Required("to", "FILE", "where to write");
  line.Option("rows", "bf16|int8|fp32",
              ".dslide: bf16 or int8; .safetensors: bf16 or fp32; others: fp32");
  line.Option("data", "FILE", "samples that a .dslide's index is measured on; default: train.test");
  DeclareFormatOptions(&line);
  return RunExecutable("dslide export", line, argc, argv, Export);
}

}  // namespace dslide
