#include "common/text/record_file.h"

#include <fmt/format.h>

namespace dslide {

Result<std::optional<RecordFile>> RecordFile::TryOpen(const std::string& path) {
  Result<TextStream> stream = TextStream::Open(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  while (true) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) return std::optional<RecordFile>();
    if ((*line)->find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::optional<RecordFormat> format = RecordFormatOf(**line);
    if (!format) return std::optional<RecordFile>();
    stream->PutBack();
    return std::optional(RecordFile(path, *format, *std::move(stream)));
  }
}

Result<RecordFile> RecordFile::Open(const std::string& path) {
  Result<std::optional<RecordFile>> file = TryOpen(path);
  DSLIDE_RETURN_IF_ERROR(file);
  if (!*file) {
    return BadInput(fmt::format(
        "{}: no JSON lines, fastText or TSV (text, tab, label); the model was trained on text",
        path));
  }
  return **std::move(file);
}

Error RecordFile::BadLine(uint64_t number, const Error& error) const {
  return {error.kind, fmt::format("{}:{}: {}", path_, number, error.message)};
}

}  // namespace dslide
