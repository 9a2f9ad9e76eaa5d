// Where a stream comes from: standard input, which ends, or a file that grows, which does not.
//
// The spool has all that was taken from it. So a file is read on from the end of the spool, and a
// pipe, whose bytes are gone once they are taken, has the bytes that follow. From anything else
// bytes would be lost when the process is killed between taking and keeping them: it is refused,
// but for /dev/null, by which a stream ends with what has come. Used by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "scheduler/stream/spool.h"

namespace dslide {

class StreamSource {
 public:
  enum class Got { kBytes, kNothing, kEnd };

  // `path`: train.data; "-" is standard input. Errors name it.
  static Result<StreamSource> Open(const std::string& path);
  StreamSource(StreamSource&& other) noexcept;
  ~StreamSource();

  // Moves what there is, at most kMost bytes, into the spool. kNothing: there is nothing now.
  // Errors are kBadInput where the file was cut off or replaced.
  Result<Got> Fetch(Spool* spool);
  const std::string& path() const { return path_; }
  bool is_file() const { return kind_ == Kind::kWholeFile || kind_ == Kind::kGrowingFile; }
  bool is_empty() const { return kind_ == Kind::kEmpty; }
  // Bytes [begin, end) of a file, as far as it has them. REQUIRES is_file().
  Result<std::string> ReadAt(uint64_t begin, uint64_t end) const;

  // Waits until there may be something, or `wake` is readable, or the time is over.
  void Wait(int wake, int timeout_ms);
  // The same without looking at the source.
  static void WaitForOrders(int wake);

  static constexpr size_t kMost = size_t{1} << 20;

 private:
  enum class Kind { kPipe, kEmpty, kWholeFile, kGrowingFile };
  StreamSource(std::string path, Kind kind, int fd)
      : path_(std::move(path)), kind_(kind), fd_(fd) {}
  Result<Got> FetchFromFile(Spool* spool);
  Status CheckSameFile() const;

  std::string path_;
  Kind kind_;
  int fd_;
  int watch_ = -1;  // inotify, of a growing file
};

}  // namespace dslide
