// A file of records, one a line: plain, .gz or .zst.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"
#include "common/data/text_stream.h"
#include "common/text/line_blocks.h"
#include "common/text/record.h"
#include "common/text/unreadable.h"

namespace dslide {

class RecordFile {
 public:
  // What a file holds: records with labels, else a stream, from its first line that is not blank
  // on.
  struct Opened;
  static Result<Opened> TryOpen(const std::string& path);
  // For a model of text: a file of another format has plain text. Numbers are an error.
  static Result<RecordFile> Open(const std::string& path);

  // The rest of a stream, a text a line.
  static RecordFile PlainText(const std::string& path, TextStream stream) {
    return RecordFile(path, RecordFormat::kPlainText, std::move(stream));
  }

  static RecordFile JsonLines(const std::string& path, TextStream stream) {
    return RecordFile(path, RecordFormat::kJsonLines, std::move(stream));
  }

  RecordFormat format() const { return format_; }
  TextStream* stream() { return &stream_; }
  uint64_t line() const { return stream_.line(); }
  // An error in a line, with its place.
  Error BadLine(uint64_t number, const Error& error) const;

 private:
  RecordFile(std::string path, RecordFormat format, TextStream stream)
      : path_(std::move(path)), format_(format), stream_(std::move(stream)) {}

  std::string path_;
  RecordFormat format_;
  TextStream stream_;
};

struct RecordFile::Opened {
  std::optional<RecordFile> records;
  std::optional<TextStream> other;
  std::string first_line;
};

// Calls take(Record&) for each record of a block that can be read; `unreadable` counts the others.
template <typename Take>
Status ForEachRecord(const RecordFile& file, const LineBlock& block, UnreadableRecords* unreadable,
                     const Take& take) {
  for (size_t i = 0; i < block.size(); ++i) {
    unreadable->CountRecord();
    Result<Record> record = ParseRecord(file.format(), block[i]);
    if (record.ok()) {
      take(*record);
    } else {
      const Error why = file.BadLine(block.NumberOf(i), record.error());
      DSLIDE_RETURN_IF_ERROR(unreadable->LeaveOut(why));
    }
  }
  return {};
}

// The error of a training file that begins with this line.
Error UnknownFormat(const std::string& path, std::string_view first_line);

}  // namespace dslide
