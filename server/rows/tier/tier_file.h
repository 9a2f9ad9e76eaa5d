// A scratch file that is read and written at random places, many transfers at a time.
//
// The file has no name from the beginning, so nothing is left of it when its process ends. It is
// opened past the page cache where the file system allows that: what the cache would take counts
// against the memory limit that made the file necessary.
//
// Transfers are in flight by io_uring, or by some threads where the system forbids that. A transfer
// that fails, and a full disk, end the process with a line that names the file and the mend: rows
// would be lost, and the checkpoint is whole. Owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// Carries transfers out (tier_io.cc).
class TierIo {
 public:
  struct Transfer {
    uint32_t index;  // comes back when it has ended
    bool write;
    uint8_t* data;
    size_t bytes;
    uint64_t offset;
  };
  struct Outcome {
    uint32_t index;
    int64_t result;  // bytes, or -errno
  };
  virtual ~TierIo() = default;
  // Takes a transfer; it may begin with the next Submit() only. REQUIRES fewer than `depth` of
  // them.
  virtual void Add(const Transfer& transfer) = 0;
  virtual void Submit() = 0;
  // Appends the outcomes that are there; with `wait` at least one. REQUIRES of `wait` a transfer in
  // flight.
  virtual void Collect(bool wait, std::vector<Outcome>* outcomes) = 0;

  // By io_uring; null: the system forbids it.
  static std::unique_ptr<TierIo> ByRing(int fd, uint32_t depth);
  // Null: there can be no thread.
  static std::unique_ptr<TierIo> ByThreads(int fd);
};

class TierFile {
 public:
  using Failure = std::function<void(const std::string& line)>;  // does not return, or throws

  struct Options {
    std::string directory;
    bool ring = true;  // io_uring, if the system has it
    Failure failure;   // empty: prints the line and ends the process with exit code 1
    size_t extent_bytes = size_t{256} << 10;  // about as many are written at a time (RowLog)
  };

  using Transfer = TierIo::Transfer;
  static constexpr uint32_t kTransfers = 256;  // in flight at most; indices are below it

  // The error names the directory, or what is lacking.
  static Result<std::unique_ptr<TierFile>> Create(const Options& options);
  ~TierFile();

  uint64_t bytes() const { return bytes_; }
  size_t extent_bytes() const { return extent_bytes_; }
  // Takes disk for so many bytes. REQUIRES bytes >= bytes().
  void Grow(uint64_t bytes);

  // Begins with the next Submit() or Await(). Data, bytes and offset are multiples of kSector.
  // REQUIRES that the index is in no transfer, and that what it writes was not read or written
  // since then by another one in flight.
  void Add(const Transfer& transfer);
  void Submit();
  uint32_t in_flight() const { return in_flight_; }
  // The indices of transfers that have ended; with `wait` at least one. Valid until the next call.
  // REQUIRES of `wait` in_flight() > 0.
  std::span<const uint32_t> Await(bool wait);

  static constexpr size_t kSector = 512;
  struct FreeAligned {
    void operator()(uint8_t* memory) const;
  };
  using Aligned = std::unique_ptr<uint8_t[], FreeAligned>;
  static Aligned Allocate(size_t bytes);

 private:
  TierFile(int fd, const Options& options);

  void Repeat(const Transfer& transfer);
  void Check(const Transfer& transfer, int64_t result);
  void Fail(const std::string& what, int error);

  int fd_;
  std::string directory_;
  size_t extent_bytes_;
  Failure failure_;
  uint64_t bytes_ = 0;
  std::vector<Transfer> transfers_;  // [kTransfers]
  std::unique_ptr<TierIo> io_;
  uint32_t added_ = 0;  // since the last Submit()
  uint32_t in_flight_ = 0;
  std::vector<TierIo::Outcome> outcomes_;
  std::vector<uint32_t> done_;
};

// Whether a directory can have such a file (kBadInput), and how many bytes are free there; 0: it is
// in memory (tmpfs).
Result<uint64_t> FreeForTier(const std::string& directory);

}  // namespace dslide
