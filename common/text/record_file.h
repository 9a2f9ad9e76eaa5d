// A file of records, one a line: plain, .gz or .zst.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/data/text_stream.h"
#include "common/text/record.h"

namespace dslide {

class RecordFile {
 public:
  // Opens the file if its first line that is not blank is a record, nullopt if it is something
  // else.
  static Result<std::optional<RecordFile>> TryOpen(const std::string& path);
  // The same, where something else is an error.
  static Result<RecordFile> Open(const std::string& path);

  RecordFormat format() const { return format_; }
  TextStream* stream() { return &stream_; }
  // An error in a line, with its place.
  Error BadLine(uint64_t number, const Error& error) const;

 private:
  RecordFile(std::string path, RecordFormat format, TextStream stream)
      : path_(std::move(path)), format_(format), stream_(std::move(stream)) {}

  std::string path_;
  RecordFormat format_;
  TextStream stream_;
};

}  // namespace dslide
