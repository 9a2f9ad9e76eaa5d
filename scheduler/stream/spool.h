// The bytes of a stream, as they came, in files of the run directory: until a checkpoint counts
// them they may have to be read again.
//
// A byte is known by its place in the stream. What a pipe has is moved by the kernel (splice), so
// that a process that is killed at any moment has neither lost bytes nor has it any twice. Files
// hold kFileBytes or a little more; those before a place that nobody goes back to are removed.
// Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

class Spool {
 public:
  static constexpr uint64_t kFileBytes = uint64_t{16} << 20;

  // Opens the spool in a directory, which is made if there is none. Errors name the file.
  static Result<Spool> Open(const std::string& directory);
  Spool(Spool&& other) noexcept;
  ~Spool();

  // Bytes [begin(), end()) of the stream are here.
  uint64_t begin() const { return files_.begin()->first; }
  uint64_t end() const { return end_; }

  Status Append(std::string_view bytes);
  // Moves up to `most` bytes from a pipe. 0: its writers have closed it; nullopt: it has none now.
  Result<std::optional<size_t>> Splice(int pipe, size_t most);
  // What to say where bytes [begin, end) are needed, and are not here.
  Error Gone(uint64_t begin, uint64_t end) const;
  // All bytes so far survive a loss of power.
  Status Sync();
  // REQUIRES begin <= end. Errors (kBadInput) say which bytes are not here.
  Result<std::string> Read(uint64_t begin, uint64_t end) const;
  // Removes files that end at `place` or before.
  void Forget(uint64_t place);

 private:
  explicit Spool(std::string directory) : directory_(std::move(directory)) {}
  std::string PathOf(uint64_t begin) const;
  // Opens the file that begins there: bytes go to it from now on.
  Status WriteTo(uint64_t begin);
  Status RollIfFull();
  Error Failure(uint64_t begin, const char* verb) const;

  std::string directory_;
  std::map<uint64_t, uint64_t> files_;  // sizes, by the place of the first byte; never empty
  uint64_t end_ = 0;
  int last_ = -1;  // descriptor of the last file
};

}  // namespace dslide
