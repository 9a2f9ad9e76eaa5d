#include "common/text/records/record_file.h"

#include <fmt/format.h>

#include <string>

#include "common/base/nearest.h"
#include "common/base/plural.h"

namespace dslide {

namespace {

// Whether a file that begins with this line is a JSON array of objects. A text may begin with a
// bracket too.
bool IsJsonArray(std::string line) {
  std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
  return line == "[" || line.starts_with("[{");
}

bool IsNumbers(TextFormat format) {
  return format == TextFormat::kNumbers || format == TextFormat::kLibsvm;
}

Error Contradicts(const std::string& path, const HeadLines& head, const Contradiction& found,
                  const DataFormat& format) {
  const std::string_view line = head.lines[found.first];
  const bool may_be_text = format.format == TextFormat::kFastText && line.find('\t') < line.size();
  return BadInput(fmt::format(
      "{}:{}: {} is not {}, {} ({} of the first {} {} not){}", path, head.numbers[found.first],
      Quoted(line), NameOf(*RecordFormatOf(format.format)),
      format.is_model ? "on which the model was trained; name the file's format by --format"
                      : "which text.format or --format names",
      found.lines, Plural(head.lines.size(), "line"), found.lines == 1 ? "is" : "are",
      may_be_text ? "; text with tabs and without labels is --format plain" : ""));
}

// An open file and the format that its first lines have. The stream is at its beginning.
struct Beginning {
  TextStream stream;
  FieldNames names;
  TextFormat seen;
  std::string first_line;
  std::optional<Error> contradiction;  // to a format of records
};

Result<Beginning> Begin(const std::string& path, const DataFormat& format, bool counts) {
  const Result<FieldNames> names = FieldNames::Parse(format.fields);
  DSLIDE_RETURN_IF_ERROR(names);
  const bool may_be_json =
      format.format == TextFormat::kRecords || format.format == TextFormat::kJson;
  Result<TextStream> stream = may_be_json ? TextStream::OpenRecords(path) : TextStream::Open(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  const HeadLines head(stream->Peek(HeadLines::kBytes));
  if (head.lines.empty()) {
    DSLIDE_RETURN_IF_ERROR(stream->Next());  // it may be damaged
    return BadInput(fmt::format("{}: the file is empty", path));
  }
  if (may_be_json && IsJsonArray(std::string(head.lines.front()))) {
    return BadInput(fmt::format(
        "{}: is one JSON array; write its objects one a line (jq -c '.[]' does so)", path));
  }
  const TextFormat seen = FormatOf(head, *names);
  const bool is_json = format.format == TextFormat::kJson && seen == TextFormat::kJson;
  std::optional<Error> contradiction;
  if (const auto records = RecordFormatOf(format.format); records && !(is_json && counts)) {
    const auto found = ContradictionOf(*records, head);
    if (found) contradiction = Contradicts(path, head, *found, format);
  }
  std::string first_line(head.lines.front());
  return Beginning{*std::move(stream), *names, seen, std::move(first_line),
                   std::move(contradiction)};
}

}  // namespace

Result<RecordFile> RecordFile::Make(const std::string& path, RecordRules rules, TextStream stream) {
  RecordFile file(path, std::move(rules), std::move(stream));
  if (file.format() == RecordFormat::kCsv) DSLIDE_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

Status RecordFile::ReadHeader() {
  while (header_.empty()) {
    const auto line = stream_.Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) return BadInput(fmt::format("{}: the file is empty", path_));
    if (!IsBlank(**line)) header_ = **line;
  }
  if (auto columns = CsvColumns::Find(header_, rules_.fields)) {
    rules_.columns = *std::move(columns);
  } else {
    Result<CsvColumns> named = CsvColumns::Parse(header_, rules_.fields);
    if (!named.ok()) return BadLine(line(), named.error());
    rules_.columns = *std::move(named);
  }
  stream_.JoinQuotedLines(rules_.columns.separator);
  return {};
}

Result<RecordFile::Opened> RecordFile::TryOpen(const std::string& path, const DataFormat& format) {
  Result<Beginning> begin = Begin(path, format, /*counts=*/true);
  DSLIDE_RETURN_IF_ERROR(begin);
  if (begin->contradiction) return *begin->contradiction;
  const bool looks = format.format == TextFormat::kRecords;
  Opened opened;
  opened.path = path;
  opened.format = looks ? begin->seen : format.format;
  opened.first_line = std::move(begin->first_line);
  opened.names = begin->names;
  const std::optional<RecordFormat> records = RecordFormatOf(opened.format);
  if (!records || (looks && records == RecordFormat::kPlainText)) {
    opened.other = std::move(begin->stream);
    return opened;
  }
  RecordRules rules(*records);
  rules.fields = std::move(begin->names);
  Result<RecordFile> file = Make(path, std::move(rules), std::move(begin->stream));
  DSLIDE_RETURN_IF_ERROR(file);
  opened.records = *std::move(file);
  return opened;
}

Result<NumberFile> RecordFile::Opened::Numbers() {
  if (!other || !IsNumbers(format)) {
    return BadInput(
        fmt::format("{}: is not a file of numbers, which text.format or --format names", path));
  }
  return NumberFile::FromStream(
      format == TextFormat::kLibsvm ? NumberFormat::kLibsvm : NumberFormat::kRepository,
      *std::move(other));
}

Result<RecordFile> RecordFile::OpenLines(const std::string& path, const DataFormat& format) {
  Result<TextStream> stream = TextStream::Open(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  const std::optional<RecordFormat> named = RecordFormatOf(format.format);
  RecordRules rules(RecordFormat::kPlainText);
  if (named == RecordFormat::kJsonLines) {
    rules.format = *named;
  } else if (named != RecordFormat::kPlainText) {
    const HeadLines head(stream->Peek(HeadLines::kBytes));
    const bool is_json = !head.lines.empty() && FormatOf(head, {}) == TextFormat::kJson;
    if (is_json) rules.format = RecordFormat::kJsonLines;
  }
  const Result<FieldNames> names = FieldNames::Parse(format.fields);
  DSLIDE_RETURN_IF_ERROR(names);
  rules.fields = *names;
  return RecordFile(path, std::move(rules), *std::move(stream));
}

Result<RecordFile> RecordFile::Open(const std::string& path, const DataFormat& format, Use use) {
  const Error numbers = BadInput(fmt::format(
      "{}: has numbers, but the model was trained on text; give text in a format of records, or "
      "name its format by --format",
      path));
  if (MatrixPathsOf(path) || IsNumbers(format.format)) return numbers;
  Result<Beginning> begin = Begin(path, format, use != Use::kPredict);
  DSLIDE_RETURN_IF_ERROR(begin);
  const bool looks = format.format == TextFormat::kRecords;
  if ((looks || format.is_model) && IsNumbers(begin->seen)) return numbers;
  const bool may_be_plain = looks || (format.is_model && use != Use::kLabels);
  std::optional<RecordFormat> records = RecordFormatOf(looks ? begin->seen : format.format);
  if (!records) {
    return BadInput(fmt::format(
        "{}: --format names words or sessions, but the model was trained on records", path));
  }
  if (format.is_model && begin->seen == TextFormat::kCsv && records != RecordFormat::kCsv &&
      records != RecordFormat::kJsonLines) {
    return BadInput(
        fmt::format("{}: is CSV by its header, and the model was trained on {}; name the file's "
                    "format by --format",
                    path, NameOf(*records)));
  }
  const bool is_strict = records == RecordFormat::kJsonLines || records == RecordFormat::kCsv;
  if (is_strict && may_be_plain && begin->seen == TextFormat::kPlain) {
    records = RecordFormat::kPlainText;
  } else if (begin->contradiction) {
    return *begin->contradiction;
  }
  RecordRules rules(*records);
  rules.fields = std::move(begin->names);
  return Make(path, std::move(rules), std::move(begin->stream));
}

Error UnknownFormat(const std::string& path, std::string_view first_line,
                    const FieldNames& fields) {
  std::string of_csv;
  if (const auto near = NearColumnOf(first_line, fields)) {
    of_csv = fmt::format(
        "; if the line is a header, did you mean {} where it has {}? "
        "--fields {}:{} (text.fields) reads it as it is",
        near->expected, Quoted(near->cell), near->field, Printable(near->cell));
  } else if (first_line.find_first_of(",;") != std::string_view::npos) {
    of_csv =
        "; of CSV with other columns than text and labels, --fields text:NAME,labels:NAME "
        "(text.fields) gives their names";
  }
  return BadInput(fmt::format(
      "{}: {} begins no known format (expected JSON lines, fastText with __label__, "
      "TSV of text, tab and label, CSV with a header, three numbers 'samples features labels', or "
      "LIBSVM's labels and feature:value{})",
      path, Quoted(first_line), of_csv));
}

Error RecordFile::BadLine(uint64_t number, const Error& error) const {
  return {error.kind, fmt::format("{}:{}: {}", path_, number, error.message)};
}

}  // namespace dslide
