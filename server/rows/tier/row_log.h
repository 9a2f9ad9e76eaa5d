// Records of rows in a scratch file that is written extent by extent, never record by record.
//
// A record that is stored goes to the end of the open extent, which is in memory, and gets a slot;
// what it was before is dropped. A full extent is written in one piece. So a disk spends its
// transfers on reads: 25,000 small writes a second would be half of what it can do. Extents without
// a record that counts are used again; when there are few of them, the emptiest other one is
// cleaned: read as a whole, and its owner stores again what counts (the log-structured file system:
// Rosenblum and Ousterhout, 1992). The file has a third more room than rows, and rows that change
// in memory have no slot, so the extent that is cleaned is half empty or more as a rule.
//
// Memory: the buffers, and 7 bytes an extent. Owned by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "server/rows/tier/tier_file.h"

namespace dslide {

class RowLog {
 public:
  // Whose rows they are. It may store records in Take(), and do nothing with the log in Arrive().
  class Owner {
   public:
    virtual ~Owner() = default;
    // A record that Read() asked for.
    virtual void Arrive(uint32_t place, const uint8_t* record) = 0;
    // The extent of the slot is cleaned. If it is the row's slot, the owner drops it, and stores
    // the record again if it has it nowhere else.
    virtual void Take(uint32_t row, uint32_t slot, const uint8_t* record) = 0;
  };

  static constexpr uint32_t kNoSlot = 0;

  // For records of up to `payload` bytes. `owner` lives longer.
  RowLog(std::unique_ptr<TierFile> file, size_t payload, Owner* owner);

  size_t record_bytes() const { return record_bytes_; }
  uint64_t file_bytes() const { return file_->bytes(); }
  uint64_t MemoryBytes() const;
  // Takes disk for `rows` rows, of which each has one slot or none.
  void Grow(uint64_t rows);

  // Stores a record: it is to be written to *record before the next call. Returns its slot. May
  // wait for transfers, and clean.
  uint32_t Store(uint32_t row, uint8_t** record);
  // The slot's record does not count any more. REQUIRES that no read of it is in flight.
  void Drop(uint32_t slot);

  // The record, if it is in memory because its extent is not written yet; else null. Valid until
  // the next call that is not const.
  const uint8_t* InMemory(uint32_t slot) const;
  // Begins with a Submit() or Await(): reads wait for each other, so that the disk always has some,
  // and Submit() never waits for it. REQUIRES InMemory() == null.
  void Read(uint32_t slot, uint32_t place);
  // `count` records from `slot` on, of one extent, as they lie there: they are at `to` after
  // AwaitScans(). REQUIRES InMemory() == null.
  void Scan(uint32_t slot, uint32_t count, uint8_t* to);
  void AwaitScans();
  // Whether the slots follow each other in an extent.
  bool Adjacent(uint32_t slot, uint32_t next) const {
    return next == slot + 1 && ExtentOf(slot) == ExtentOf(next);
  }

  void Submit() { file_->Submit(); }
  uint32_t in_flight() const { return file_->in_flight(); }
  // Ends transfers that are done; with `wait` at least one. REQUIRES of `wait` in_flight() > 0.
  void Await(bool wait);

  // REQUIRES that `stored` rows have a slot. Aborts where it is not so.
  void CheckInvariants(uint64_t stored) const;

 private:
  enum class State : uint8_t { kFree, kWriting, kFull, kCleaning };
  // An extent in memory. Its records are followed by the numbers of their rows.
  struct Writer {
    uint8_t* data;
    uint32_t extent = kNone;  // kNone: the buffer is free
  };
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint32_t kWriters = 4;
  static constexpr uint32_t kScans = 96;      // in flight
  static constexpr uint32_t kReserve = 2;     // extents for what cleaning stores again
  static constexpr uint32_t kCleanAhead = 4;  // free extents at which the next one is read
  // Indices of transfers: writers, the cleaner, scans, and reads by their buffer.
  static constexpr uint32_t kCleaner = kWriters;
  static constexpr uint32_t kFirstScan = kCleaner + 1;
  static constexpr uint32_t kFirstRead = kFirstScan + kScans;

  uint32_t ExtentOf(uint32_t slot) const { return (slot - 1) / extent_records_; }
  uint64_t OffsetOf(uint32_t slot) const {
    return ExtentOf(slot) * extent_bytes_ + (slot - 1) % extent_records_ * record_bytes_;
  }
  uint32_t* RowsOf(uint8_t* extent) const {
    return reinterpret_cast<uint32_t*>(extent + extent_records_ * record_bytes_);
  }
  uint8_t* ReadBuffer(uint32_t n) { return reads_.get() + n * record_bytes_; }
  void BeginReads();
  bool IsOpenFull() const { return open_ == kNone || open_count_ == extent_records_; }
  void OpenExtent();
  void FreeIfEmpty(uint32_t extent);
  void BeginCleaning();
  void Clean();
  uint32_t Emptiest();

  Owner* owner_;
  size_t record_bytes_;  // a multiple of kSector
  uint32_t extent_records_;
  uint64_t extent_bytes_;
  std::vector<uint16_t> live_;  // [extents] records that count
  std::vector<State> state_;    // [extents]
  std::vector<uint32_t> free_;
  uint32_t hand_ = 0;

  TierFile::Aligned extents_;  // of the writers and the cleaner
  std::array<Writer, kWriters> writers_ = {};
  uint32_t open_ = kNone;  // the writer that takes records
  uint32_t open_count_ = 0;
  uint8_t* cleaner_;
  uint32_t cleaned_ = kNone;  // the extent that is read for cleaning, or was
  bool clean_read_ = false;
  bool cleaning_ = false;

  TierFile::Aligned reads_;
  std::vector<uint32_t> place_of_;    // [buffers]
  std::vector<uint32_t> free_reads_;  // buffers
  struct Waiting {
    uint32_t slot, place;
  };
  std::deque<Waiting> waiting_;       // reads that have no buffer yet
  std::vector<uint32_t> free_scans_;  // indices

  std::unique_ptr<TierFile> file_;  // last: it ends what is in flight before the buffers go
};

}  // namespace dslide
