// The samples of any data file as lines, one after another: those of the file itself, or of numbers
// the Extreme Classification Repository's without a header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"
#include "common/data/numbers/number_file.h"
#include "common/text/records/record_file.h"

namespace dslide {

// A data file that was opened, of either kind.
struct DataFile {
  std::optional<RecordFile> records;
  std::optional<NumberFile> numbers;

  // Errors (kBadInput) name the file. A file that matches no other format is plain text.
  static Result<DataFile> Open(const std::string& path, const DataFormat& format);

  std::string format_name() const {
    return records ? std::string(NameOf(records->format())) : numbers->description();
  }
};

// A sample of numbers as a line, without its end: "label,label feature:value ...".
std::string FormatSample(const SampleView& sample);

// Equal for equal features with equal values, or for equal texts; by XXH3.
uint64_t HashOf(const SampleView& sample);
uint64_t HashOf(const Record& record);

class SampleLines {
 public:
  static Result<SampleLines> Open(const std::string& path, const DataFormat& format);

  const DataFile& file() const { return file_; }

  // The next sample, or nullopt at the end; valid until the next call. Blank lines of text are
  // none.
  Result<std::optional<std::string_view>> Next();
  // Hashes the sample that Next() returned last, or its line if it cannot be read. REQUIRES one
  // call for each sample.
  uint64_t Hash();
  // Records that cannot be read; their Hash() was that of the line.
  const UnreadableRecords& unreadable() const { return unreadable_; }
  // The sizes that the file tells, or the greatest ids + 1 so far; of text 0.
  ModelSize size() const { return size_; }

 private:
  explicit SampleLines(DataFile file);

  DataFile file_;
  ModelSize size_;
  std::string line_;
  std::string_view text_;  // of records, the line
  uint64_t hash_ = 0;      // of numbers
  UnreadableRecords unreadable_;
};

}  // namespace dslide
