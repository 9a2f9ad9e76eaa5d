// A file of records: plain, .gz or .zst.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"
#include "common/data/numbers/number_file.h"
#include "common/data/text_stream.h"
#include "common/text/records/line_blocks.h"
#include "common/text/records/record.h"
#include "common/text/records/record_format.h"
#include "common/text/records/unreadable.h"

namespace dslide {

class RecordFile {
 public:
  // A file of records, or the stream of another file from its beginning.
  struct Opened;
  // Errors (kBadInput) name the file: a line that contradicts the format as a whole, or the header
  // of CSV.
  static Result<Opened> TryOpen(const std::string& path, const DataFormat& format = {});
  // Why a model reads a file.
  enum class Use {
    kPredict,  // each record
    kSamples,  // those that can be read, whose caller counts the others (unreadable.h)
    kLabels    // the same, with labels
  };
  // For a model of text: numbers are an error. A file that looks like plain text is read so
  // whatever the model's format, unless its labels are wanted. Lines that are no JSON in a file
  // that has it in most are left to a caller that counts them.
  static Result<RecordFile> Open(const std::string& path, const DataFormat& format, Use use);

  // For a model of words or sessions, where a line is a sample: its text, or JSON.
  static Result<RecordFile> OpenLines(const std::string& path, const DataFormat& format);

  // The rest of a stream, a text a line.
  static RecordFile PlainText(const std::string& path, TextStream stream) {
    return RecordFile(path, RecordFormat::kPlainText, std::move(stream));
  }

  RecordFormat format() const { return rules_.format; }
  const RecordRules& rules() const { return rules_; }
  // The header line of CSV; empty in other formats.
  const std::string& header() const { return header_; }
  // A record of CSV may have several lines.
  TextStream* stream() { return &stream_; }
  uint64_t line() const { return stream_.line(); }
  // An error in a line, with its place.
  Error BadLine(uint64_t number, const Error& error) const;

 private:
  RecordFile(std::string path, RecordRules rules, TextStream stream)
      : path_(std::move(path)), rules_(std::move(rules)), stream_(std::move(stream)) {}

  static Result<RecordFile> Make(const std::string& path, RecordRules rules, TextStream stream);
  Status ReadHeader();

  std::string path_;
  RecordRules rules_;
  TextStream stream_;
  std::string header_;
};

struct RecordFile::Opened {
  TextFormat format = TextFormat::kPlain;  // never kRecords
  std::optional<RecordFile> records;
  std::optional<TextStream> other;  // kPlain, unless it was named; numbers
  std::string first_line;           // that is not blank
  FieldNames names;                 // that the format has

  // The samples of `other`; an error if the file has no numbers.
  Result<NumberFile> Numbers();
  std::string path;
};

// Calls take(Record&) for each record of a block that can be read; `unreadable` counts the others.
template <typename Take>
void ForEachRecord(const RecordFile& file, const LineBlock& block, UnreadableRecords* unreadable,
                   const Take& take) {
  for (size_t i = 0; i < block.size(); ++i) {
    unreadable->CountRecord();
    Result<Record> record = ParseRecord(file.rules(), block[i]);
    if (record.ok()) {
      take(*record);
    } else {
      unreadable->LeaveOut(file.BadLine(block.NumberOf(i), record.error()));
    }
  }
}

// The error of a training file that begins with this line.
Error UnknownFormat(const std::string& path, std::string_view first_line, const FieldNames& fields);

}  // namespace dslide
