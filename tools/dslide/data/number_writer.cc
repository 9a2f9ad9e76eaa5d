#include "tools/dslide/data/number_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "common/data/numbers/npz_writer.h"
#include "common/data/scratch_file.h"
#include "common/data/text_writer.h"
#include "tools/dslide/data/sample_lines.h"

namespace dslide {
namespace {

// The header has the number of samples, so the lines wait in a scratch file.
class RepositoryWriter : public NumberWriter {
 public:
  RepositoryWriter(std::string path, TextWriter out, ScratchFile lines)
      : path_(std::move(path)), out_(std::move(out)), lines_(std::move(lines)) {}

  void Add(const SampleView& sample) override {
    lines_.Write(FormatSample(sample) + "\n");
    ++samples_;
  }

  Status Finish(const ModelSize& size) override {
    out_.Write(fmt::format("{} {} {}\n", samples_, size.features, size.labels));
    const Status read = lines_.ReadAll([&](std::string_view bytes) { out_.Write(bytes); });
    DSLIDE_RETURN_IF_ERROR(read);
    return out_.Finish();
  }

 private:
  std::string path_;
  TextWriter out_;
  ScratchFile lines_;
  uint64_t samples_ = 0;
};

class LibsvmWriter : public NumberWriter {
 public:
  explicit LibsvmWriter(TextWriter out) : out_(std::move(out)) {}

  // A blank line would be no sample.
  void Add(const SampleView& sample) override {
    const bool is_blank = sample.labels.empty() && sample.features.empty();
    out_.Write((is_blank ? " 0:0" : FormatSample(sample)) + "\n");
  }
  Status Finish(const ModelSize&) override { return out_.Finish(); }

 private:
  TextWriter out_;
};

class MatrixWriter : public NumberWriter {
 public:
  MatrixWriter(NpzWriter features, NpzWriter labels)
      : features_(std::move(features)), labels_(std::move(labels)) {}

  void Add(const SampleView& sample) override {
    features_.AddRow(sample.features, sample.values);
    ones_.resize(std::max(ones_.size(), sample.labels.size()), 1.0f);
    labels_.AddRow(sample.labels, std::span(ones_).first(sample.labels.size()));
  }
  Status Finish(const ModelSize& size) override {
    DSLIDE_RETURN_IF_ERROR(features_.Finish(size.features));
    return labels_.Finish(size.labels);
  }

 private:
  NpzWriter features_;
  NpzWriter labels_;
  std::vector<float> ones_;
};

Result<std::unique_ptr<NumberWriter>> CreateMatrices(const std::string& path) {
  const auto paths = MatrixPathsOf(path);
  if (!paths || paths->labels.empty() || !paths->weights.empty() || paths->features.size() > 1) {
    return BadInput(
        fmt::format("{}: npz wants a file of features and one of labels, X.npz,Y.npz", path));
  }
  const std::string& of_features = paths->features.front();
  for (const std::string& name : {of_features, paths->labels}) {
    if (!name.ends_with(".npy")) continue;
    return BadInput(
        fmt::format("{}: no dense matrix can be written (name sparse ones, X.npz,Y.npz)", name));
  }
  Result<NpzWriter> features = NpzWriter::Create(of_features);
  DSLIDE_RETURN_IF_ERROR(features);
  Result<NpzWriter> labels = NpzWriter::Create(paths->labels);
  DSLIDE_RETURN_IF_ERROR(labels);
  return std::unique_ptr<NumberWriter>(
      std::make_unique<MatrixWriter>(*std::move(features), *std::move(labels)));
}

}  // namespace

Result<std::unique_ptr<NumberWriter>> NumberWriter::Create(const std::string& path,
                                                           NumberFormat format) {
  if (format == NumberFormat::kNpz) return CreateMatrices(path);
  Result<TextWriter> out = TextWriter::Create(path);
  DSLIDE_RETURN_IF_ERROR(out);
  if (format == NumberFormat::kLibsvm) {
    return std::unique_ptr<NumberWriter>(std::make_unique<LibsvmWriter>(*std::move(out)));
  }
  Result<ScratchFile> lines = ScratchFile::Beside(path);
  DSLIDE_RETURN_IF_ERROR(lines);
  return std::unique_ptr<NumberWriter>(
      std::make_unique<RepositoryWriter>(path, *std::move(out), *std::move(lines)));
}

}  // namespace dslide
