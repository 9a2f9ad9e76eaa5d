// Writes records in one of the formats for them (common/text/records/record.h). An output file
// gets its name when it is complete.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/data/text_writer.h"
#include "common/text/records/record.h"

namespace dslide {

// What a format could not hold, in samples.
struct NotHeld {
  uint64_t titles = 0;       // joined with their texts
  uint64_t separators = 0;   // tabs and line ends in texts became spaces
  uint64_t label_marks = 0;  // words of texts that begin as labels do were changed
  uint64_t label_names = 0;  // blanks in names became '_', or brackets around them were left out
  uint64_t ids = 0;          // were left out
  uint64_t weights = 0;      // other than 1, were left out

  // One line, or "".
  std::string Text(RecordFormat format) const;
};

class RecordWriter {
 public:
  // Compressed by the path's end, .gz or .zst.
  static Result<RecordWriter> Create(const std::string& path, RecordFormat format);

  void Add(const Record& record);
  Status Finish() { return out_.Finish(); }
  const NotHeld& not_held() const { return not_held_; }

 private:
  RecordWriter(RecordFormat format, TextWriter out) : format_(format), out_(std::move(out)) {}

  std::string TsvLine(const Record& record);
  std::string FastTextLine(const Record& record);
  std::string OneLine(const Record& record);

  RecordFormat format_;
  TextWriter out_;
  NotHeld not_held_;
};

}  // namespace dslide
