// By what a stream knows its source again when a run goes on: the file RUN/stream/source.
//
// Places count from the beginning of the stream, so a run must go on with the source that it began
// with. A pipe is followed by a pipe: what it brings cannot be checked. A file has to begin with
// the bytes that the stream began with, and those at which the stream goes on must follow the last
// ones that were read. Its name, device and inode do not count: a run directory and its data may be
// copied to another machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "scheduler/stream/spool.h"
#include "scheduler/stream/stream_source.h"

namespace dslide {

struct SourceMark {
  static constexpr uint64_t kMostBytes = 4096;

  bool is_file = false;
  uint64_t bytes = 0;     // of the beginning of the stream, that
  uint64_t checksum = 0;  // is of; XXH3
  std::string path;       // of the file, for people; empty: standard input

  bool operator==(const SourceMark&) const = default;
};

// Of no bytes where the spool has forgotten the beginning.
Result<SourceMark> MarkOf(const StreamSource& source, const Spool& spool);
Status WriteMark(const std::string& directory, const SourceMark& mark);
// None: there is no file. Errors (kBadInput) name it.
Result<std::optional<SourceMark>> ReadMark(const std::string& directory);

// Whether `source` goes on with what `spool` has. No mark: the run is new, or of a version without
// them. Errors (kBadInput) name train.data.
Status CheckSource(const std::optional<SourceMark>& mark, const StreamSource& source,
                   const Spool& spool);

}  // namespace dslide
