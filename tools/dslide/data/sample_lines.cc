#include "tools/dslide/data/sample_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/base/plural.h"
#include "common/checkpoint/file_checksum.h"

namespace dslide {
namespace {

uint64_t HashOfBytes(std::string_view bytes) {
  return ChecksumOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

Result<DataFile> DataFile::Open(const std::string& path, const DataFormat& format) {
  DataFile file;
  if (const auto matrices = MatrixPathsOf(path)) {
    Result<NumberFile> numbers = NumberFile::OpenMatrices(*matrices);
    DSLIDE_RETURN_IF_ERROR(numbers);
    file.numbers.emplace(*std::move(numbers));
    return file;
  }
  Result<RecordFile::Opened> opened = RecordFile::TryOpen(path, format);
  DSLIDE_RETURN_IF_ERROR(opened);
  if (opened->records) {
    file.records.emplace(*std::move(opened->records));
    return file;
  }
  if (opened->format == TextFormat::kPlain) {
    file.records.emplace(RecordFile::PlainText(path, *std::move(opened->other)));
    return file;
  }
  Result<NumberFile> numbers = opened->Numbers();
  DSLIDE_RETURN_IF_ERROR(numbers);
  file.numbers.emplace(*std::move(numbers));
  return file;
}

std::string FormatSample(const SampleView& sample) {
  std::string line = Joined(sample.labels, ",");
  for (size_t i = 0; i < sample.features.size(); ++i) {
    fmt::format_to(std::back_inserter(line), " {}:{}", sample.features[i], sample.values[i]);
  }
  return line;
}

uint64_t HashOf(const SampleView& sample) {
  std::string bytes(reinterpret_cast<const char*>(sample.features.data()),
                    sample.features.size_bytes());
  bytes.append(reinterpret_cast<const char*>(sample.values.data()), sample.values.size_bytes());
  return HashOfBytes(bytes);
}

uint64_t HashOf(const Record& record) {
  std::string text;
  for (const std::string& field : record.fields) (text += field) += '\n';
  return HashOfBytes(text);
}

SampleLines::SampleLines(DataFile file) : file_(std::move(file)) {
  const XcHeader* header = file_.numbers ? file_.numbers->header() : nullptr;
  if (header != nullptr) size_ = {header->num_features, header->num_labels};
}

Result<SampleLines> SampleLines::Open(const std::string& path, const DataFormat& format) {
  Result<DataFile> file = DataFile::Open(path, format);
  DSLIDE_RETURN_IF_ERROR(file);
  return SampleLines(*std::move(file));
}

Result<std::optional<std::string_view>> SampleLines::Next() {
  if (file_.numbers) {
    const Result<std::optional<SampleView>> next = file_.numbers->Next();
    DSLIDE_RETURN_IF_ERROR(next);
    if (!*next) return std::optional<std::string_view>();
    const SampleView& sample = **next;
    if (!sample.features.empty())
      size_.features = std::max(size_.features, sample.features.back() + 1);
    if (!sample.labels.empty()) size_.labels = std::max(size_.labels, sample.labels.back() + 1);
    hash_ = HashOf(sample);
    line_ = FormatSample(sample);
    return std::optional<std::string_view>(line_);
  }
  while (true) {
    const auto line = file_.records->stream()->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) return std::optional<std::string_view>();
    if (IsBlank(**line)) continue;
    text_ = **line;
    return std::optional(text_);
  }
}

uint64_t SampleLines::Hash() {
  if (file_.numbers) return hash_;
  const RecordFile& file = *file_.records;
  unreadable_.CountRecord();
  const Result<Record> record = ParseRecord(file.rules(), text_);
  if (record.ok()) return HashOf(*record);
  unreadable_.LeaveOut(file.BadLine(file.line(), record.error()));
  return HashOfBytes(text_);
}

}  // namespace dslide
