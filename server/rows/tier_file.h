// A scratch file of records of one size, read and written at random places.
//
// The file has no name from the beginning, so nothing is left of it when its process ends. It is
// opened past the page cache where the file system allows that: what the cache would take counts
// against the memory limit that made the file necessary.
//
// Many transfers are in flight, each with a buffer of its own: by io_uring, or by some threads
// where the system forbids that. A transfer that fails, and a full disk, end the process with a
// line that names the file and the mend: rows would be lost, and the checkpoint is whole. Owned by
// one thread.
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

// Carries transfers out (tier_io.cc). A record is `bytes` at `offset`.
class TierIo {
 public:
  struct Transfer {
    uint32_t buffer;  // whose number comes back
    bool write;
    uint8_t* data;
    size_t bytes;
    uint64_t offset;
  };
  struct Outcome {
    uint32_t buffer;
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
  };

  // For records of up to `payload` bytes. The error names the directory, or what is lacking.
  static Result<std::unique_ptr<TierFile>> Create(const Options& options, size_t payload);
  ~TierFile();

  // Of a record in the file: a multiple of kSector.
  size_t record_bytes() const { return record_bytes_; }
  uint64_t records() const { return records_; }
  uint64_t bytes() const { return records_ * record_bytes_; }
  // Takes disk for records [0, records). REQUIRES records >= records().
  void Grow(uint64_t records);

  // A buffer that no transfer uses; kNone: all are in use.
  static constexpr uint32_t kNone = ~0u;
  uint32_t TakeBuffer();
  void GiveBack(uint32_t buffer) { free_.push_back(buffer); }
  uint8_t* Buffer(uint32_t buffer) { return buffers_.get() + buffer * record_bytes_; }
  uint32_t buffers() const { return count_; }

  // Begin with the next Submit() or Await().
  void Read(uint32_t buffer, uint64_t record) { Add(buffer, record, false); }
  void Write(uint32_t buffer, uint64_t record) {
    if (!prepared_[record / extent_]) PrepareFrom(record / extent_ * extent_);
    Add(buffer, record, true);
  }
  void Submit();
  uint32_t in_flight() const { return in_flight_; }
  // The buffers whose transfers have ended; with `wait` at least one. Valid until the next call.
  // REQUIRES of `wait` in_flight() > 0.
  std::span<const uint32_t> Await(bool wait);

  // At once: records [first, first + count) to or from data [count x record_bytes()], which is
  // aligned to kSector.
  void ReadNow(uint64_t first, uint32_t count, uint8_t* data);
  void WriteNow(uint64_t first, uint32_t count, const uint8_t* data);

  static constexpr size_t kSector = 512;
  struct FreeAligned {
    void operator()(uint8_t* memory) const;
  };
  using Aligned = std::unique_ptr<uint8_t[], FreeAligned>;
  static Aligned Allocate(size_t bytes);

 private:
  TierFile(int fd, const Options& options, size_t record_bytes);

  void Add(uint32_t buffer, uint64_t record, bool write);
  void PrepareFrom(uint64_t first);
  void Check(bool write, int64_t result, size_t bytes);
  void Fail(const std::string& what, int error);

  int fd_;
  std::string directory_;
  Failure failure_;
  size_t record_bytes_;
  uint64_t records_ = 0;
  // Disk that was taken and never written costs a small write a transaction of the file system.
  uint64_t extent_;             // records that are written together, before one of them is
  std::vector<bool> prepared_;  // [extents]
  uint32_t count_;              // of buffers
  Aligned buffers_;
  std::vector<uint32_t> free_;
  std::vector<uint8_t> writes_;      // [buffers] whether its transfer is a write
  std::vector<uint64_t> record_of_;  // [buffers] of which record
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
