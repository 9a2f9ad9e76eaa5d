// Rows of a layer that memory has no room for, in a file, and which of them are in memory.
//
// The layer's arrays have `places`; a row is in a place or not. Rows come when they are needed
// (Request(), Hold()) and go when others need their places. The victim is the least touched one of
// a few places, which a hand goes round over; touches are counted a row, in memory or not, and
// fade. What a batch has just touched stays for a while: it is needed again for the gradient.
//
// Whole rows move, not pages: the rows that are touched often are scattered, and a page has seldom
// two of them. A row that came in and did not change is not written again (RowLog). A row that
// nobody has changed is in no file: it is zero, or drawn again (RowSource).
//
// Reads are asynchronous: Request() returns while rows are on their way, Hold() waits for its own.
//
// Memory: 9 bytes a row and 9 a place, beside the layer's arrays and the log's buffers.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/huge_buffer.h"
#include "server/rows/tier/row_log.h"

namespace dslide {

// Makes rows that nobody has changed.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Fills a record of the row: its parts, one behind the other.
  virtual void DrawRow(uint32_t row, uint8_t* record) const = 0;
};

class RowTier : private RowLog::Owner {
 public:
  // Where the layer has a part of a row in memory: `bytes` at base + place * bytes.
  struct Part {
    uint8_t* base;
    size_t bytes;
  };
  struct Figures {
    uint64_t rows = 0;    // touched, a row once in a Request()
    uint64_t misses = 0;  // of these, read from the file since they were touched last
    uint64_t writes = 0;
  };

  static constexpr uint32_t kLeastPlaces = 64;
  // The bytes that a place takes beside the parts, and a row.
  static constexpr size_t kPlaceBytes = 9;
  static constexpr size_t kRowBytes = 9;

  // REQUIRES places >= kLeastPlaces. There are no rows yet.
  RowTier(std::unique_ptr<TierFile> file, std::vector<Part> parts, uint32_t places);

  uint32_t rows() const { return rows_; }
  uint32_t places() const { return places_; }
  const Figures& figures() const { return figures_; }
  uint64_t file_bytes() const { return log_.file_bytes(); }
  // Of the bookkeeping and the buffers.
  uint64_t MemoryBytes() const;

  // Extends to rows [0, rows); the new ones are zero.
  void Grow(uint32_t rows);
  // Rows [0, rows) are in the places of the same numbers. REQUIRES rows() == 0, rows <= places().
  void Adopt(uint32_t rows);
  // Rows [begin, end) become zero, or are to be drawn. What they were is forgotten.
  void Reset(uint32_t begin, uint32_t end, bool drawn);

  // Brings rows into memory; some may still be on their way. Takes as many of the first rows as
  // half the places hold. A row may be named twice. `counts`: the rows count as touched; false for
  // rows that a batch needs again, or will need.
  void Request(std::span<const uint32_t> rows, bool counts, const RowSource& source);
  // The row's place, with the row in it. Valid until another row is requested or held.
  uint32_t Hold(uint32_t row, const RowSource& source) {
    const uint32_t state = state_[row];
    if (state >= kFirstPlace && (flags_[state - kFirstPlace] & kArriving) == 0) {
      return state - kFirstPlace;
    }
    return HoldAbsent(row, source);
  }
  // The row's place, or kNowhere if it is not in memory; nothing moves. It may be on its way.
  static constexpr uint32_t kNowhere = ~0u;
  uint32_t Find(uint32_t row) const {
    return state_[row] >= kFirstPlace ? state_[row] - kFirstPlace : kNowhere;
  }
  // The row in this place changes.
  void MarkChanged(uint32_t place) {
    if ((flags_[place] & kChanged) != 0) return;
    flags_[place] |= kChanged;
    DropStored(row_[place]);
  }
  // Changes whenever a place may have got another row.
  uint64_t moves() const { return moves_; }

  // The row's record, without bringing it into memory; valid until the next call. Rows in ascending
  // order are read many at a time.
  const uint8_t* Peek(uint32_t row, const RowSource& source);
  // Stores a record.
  void Put(uint32_t row, const uint8_t* record);

  // REQUIRES that no row is on its way by another thread's doing. Aborts where one is broken.
  void CheckInvariants() const;

 private:
  // state_: one of these, or kFirstPlace + the place.
  enum : uint32_t { kZero, kDrawn, kStored, kFirstPlace };
  // flags_
  enum : uint8_t {
    kChanged = 1,   // since it came, or the log has it no more: it has no slot
    kArriving = 2,  // a read is in flight
    kWasDrawn = 4,  // it was drawn, and the log has it not
    kWasRead = 8    // and not counted as touched since
  };

  uint8_t* At(size_t part, uint32_t place) const {
    return parts_[part].base + place * parts_[part].bytes;
  }
  void CopyIn(uint32_t place, const uint8_t* record);
  void CopyOut(uint32_t place, uint8_t* record) const;

  void Touch(uint32_t row, uint32_t since, bool counts);
  void Fade(uint32_t touches);
  uint32_t HoldAbsent(uint32_t row, const RowSource& source);
  void Admit(uint32_t row, const RowSource& source);
  uint32_t FreePlace();
  uint32_t Victim();
  void Evict(uint32_t place);
  bool Protected(uint32_t place) const { return now_ - touched_[place] < protected_; }

  void Arrive(uint32_t place, const uint8_t* record) override;
  void Take(uint32_t row, uint32_t slot, const uint8_t* record) override;
  // Gives a row that has none a slot. Its record is to be written there.
  uint8_t* Store(uint32_t row);
  void DropStored(uint32_t row);
  void AwaitArrival(uint32_t place);
  void FollowScan(uint32_t row, const uint8_t* record);
  void ReadScan(uint32_t row);

  std::vector<Part> parts_;
  size_t payload_ = 0;  // bytes of all parts
  uint32_t places_;
  uint32_t protected_;  // touches for which a place keeps its row
  uint32_t rows_ = 0;
  HugeBuffer<uint32_t> state_;    // [rows]
  HugeBuffer<uint32_t> slot_;     // [rows] of the log, or RowLog::kNoSlot
  HugeBuffer<uint8_t> count_;     // [rows] touches, fading
  HugeBuffer<uint32_t> row_;      // [places]; kNowhere: free
  HugeBuffer<uint32_t> touched_;  // [places] now_ when last touched
  HugeBuffer<uint8_t> flags_;     // [places]
  std::vector<uint32_t> free_;    // places that were given back
  uint32_t used_ = 0;             // places [used_, places) were never used
  uint32_t hand_ = 0;
  uint32_t now_ = 0;     // touches, wrapping
  uint32_t fading_ = 0;  // the row at which Fade() goes on
  uint64_t moves_ = 0;
  Figures figures_;

  TierFile::Aligned scan_;  // records of rows [scan_begin_, scan_end_)
  uint32_t scan_rows_;      // that it has room for
  uint32_t scan_begin_ = 0, scan_end_ = 0;
  uint32_t scan_window_ = 1;
  uint32_t scan_last_ = 0;
  std::vector<uint8_t> peeked_;

  RowLog log_;  // last: it is done with transfers before the rest goes
};

}  // namespace dslide
