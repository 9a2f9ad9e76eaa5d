#include "common/data/numbers/number_file.h"

#include <algorithm>

namespace dslide {
namespace {

// Up to the first line that is not blank, which is put back; empty if there is none.
Result<std::string> FirstLine(TextStream* stream) {
  while (true) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) return std::string();
    if (IsBlank(**line)) continue;
    std::string first(**line);
    stream->PutBack();
    return first;
  }
}

}  // namespace

bool IsNumbersHeader(std::string_view line) {
  size_t numbers = 0;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty()) return numbers == 3;
    const std::string_view part = line.substr(0, line.find_first_of(" \t\r"));
    if (part.find_first_not_of("0123456789") != std::string_view::npos) return false;
    ++numbers;
    line.remove_prefix(part.size());
  }
}

std::string_view NameOf(NumberFormat format) {
  switch (format) {
    case NumberFormat::kRepository:
      return "numbers";
    case NumberFormat::kLibsvm:
      return "LIBSVM";
    case NumberFormat::kNpz:
      return "npz";
  }
  return "";
}

Result<NumberFile> NumberFile::OpenMatrices(const MatrixPaths& paths) {
  Result<MatrixReader> reader = MatrixReader::Open(paths);
  DSLIDE_RETURN_IF_ERROR(reader);
  return NumberFile(Reader(*std::move(reader)));
}

Result<NumberFile> NumberFile::FromStream(NumberFormat format, TextStream stream) {
  if (format == NumberFormat::kLibsvm) return NumberFile(Reader(LibsvmReader(std::move(stream))));
  DSLIDE_RETURN_IF_ERROR(FirstLine(&stream));  // blank lines before the header
  Result<XcReader> reader = XcReader::FromStream(std::move(stream));
  DSLIDE_RETURN_IF_ERROR(reader);
  return NumberFile(Reader(*std::move(reader)));
}

Result<NumberFile> NumberFile::Open(const std::string& path) {
  if (const auto paths = MatrixPathsOf(path)) return OpenMatrices(*paths);
  Result<TextStream> stream = TextStream::Open(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  const Result<std::string> first_line = FirstLine(&*stream);
  DSLIDE_RETURN_IF_ERROR(first_line);
  const bool is_libsvm = IsLibsvmLine(*first_line) || IsLabelList(*first_line);
  return FromStream(is_libsvm ? NumberFormat::kLibsvm : NumberFormat::kRepository,
                    *std::move(stream));
}

NumberFormat NumberFile::format() const { return static_cast<NumberFormat>(reader_.index()); }

std::string NumberFile::description() const {
  if (const auto* matrices = std::get_if<MatrixReader>(&reader_)) return matrices->description();
  return std::string(NameOf(format()));
}

const XcHeader* NumberFile::header() const {
  if (const auto* xc = std::get_if<XcReader>(&reader_)) return &xc->header();
  if (const auto* matrices = std::get_if<MatrixReader>(&reader_)) return &matrices->header();
  return nullptr;
}

bool NumberFile::has_weights() const {
  const auto* matrices = std::get_if<MatrixReader>(&reader_);
  return matrices != nullptr && matrices->has_weights();
}

Result<std::optional<SampleView>> NumberFile::Next() {
  Result<std::optional<SampleView>> next =
      std::visit([](auto& reader) { return reader.Next(); }, reader_);
  if (!next.ok() || !*next || !most_features_ || format() != NumberFormat::kLibsvm) return next;
  SampleView& sample = **next;
  const auto known = static_cast<size_t>(
      std::ranges::lower_bound(sample.features, *most_features_) - sample.features.begin());
  left_out_ += sample.features.size() - known;
  sample.features = sample.features.first(known);
  sample.values = sample.values.first(known);
  return next;
}

Result<Dataset> ReadNumbers(NumberFile* file, const std::optional<ModelSize>& model) {
  const XcHeader* header = file->header();
  if (header == nullptr && model) file->FitTo(*model);
  ModelSize size = model.value_or(ModelSize());
  if (header != nullptr) size = {header->num_features, header->num_labels};
  const bool grows = header == nullptr && !model;
  Dataset dataset;
  while (true) {
    const Result<std::optional<SampleView>> sample = file->Next();
    DSLIDE_RETURN_IF_ERROR(sample);
    if (!*sample) break;
    const SampleView& s = **sample;
    if (grows && !s.features.empty())
      size.features = std::max(size.features, s.features.back() + 1);
    if (grows && !s.labels.empty()) size.labels = std::max(size.labels, s.labels.back() + 1);
    dataset.Add(s);
  }
  dataset.SetSizes(size.features, size.labels);
  return dataset;
}

}  // namespace dslide
