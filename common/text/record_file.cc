#include "common/text/record_file.h"

#include <fmt/format.h>

#include <string>

#include "common/data/numbers/number_file.h"

namespace dslide {

namespace {

// Whether a file that begins with this line is a JSON array of objects. A text may begin with a
// bracket too.
bool IsJsonArray(std::string line) {
  std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
  return line == "[" || line.starts_with("[{");
}

}  // namespace

Result<RecordFile::Opened> RecordFile::TryOpen(const std::string& path) {
  Result<TextStream> stream = TextStream::Open(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  Opened opened;
  while (opened.first_line.empty()) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) return BadInput(fmt::format("{}: the file is empty", path));
    if (!IsBlank(**line)) opened.first_line = **line;
  }
  stream->PutBack();
  if (IsJsonArray(opened.first_line)) {
    return BadInput(fmt::format(
        "{}: is one JSON array; write its objects one a line (jq -c '.[]' does so)", path));
  }
  if (const std::optional<RecordFormat> format = RecordFormatOf(opened.first_line)) {
    opened.records = RecordFile(path, *format, *std::move(stream));
  } else {
    opened.other = *std::move(stream);
  }
  return opened;
}

Result<RecordFile> RecordFile::Open(const std::string& path) {
  const Error numbers = BadInput(fmt::format(
      "{}: has numbers, but the model was trained on text; give text whose first line looks so "
      "as JSON lines",
      path));
  if (MatrixPathsOf(path)) return numbers;
  Result<Opened> opened = TryOpen(path);
  DSLIDE_RETURN_IF_ERROR(opened);
  if (opened->records) return *std::move(opened->records);
  if (IsNumbersHeader(opened->first_line) || IsLibsvmLine(opened->first_line)) return numbers;
  return PlainText(path, *std::move(opened->other));
}

Error UnknownFormat(const std::string& path, std::string_view first_line) {
  const bool has_commas = first_line.find_first_of(",;") != std::string_view::npos;
  return BadInput(fmt::format(
      "{}: {} begins no known format (expected JSON lines, fastText with __label__, "
      "TSV of text, tab and label, three numbers 'samples features labels', or LIBSVM's "
      "labels and feature:value{})",
      path, Quoted(first_line), has_commas ? "; write a CSV file as one of them" : ""));
}

Error RecordFile::BadLine(uint64_t number, const Error& error) const {
  return {error.kind, fmt::format("{}:{}: {}", path_, number, error.message)};
}

}  // namespace dslide
