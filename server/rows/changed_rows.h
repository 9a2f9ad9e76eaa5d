// Which rows of a layer a checkpoint has to write, and the snapshot of them that is being written.
//
// Copy-on-write: the mark only swaps bitmaps. From then on a row that is about to change while it
// is still to be written is copied aside first.
//
// Memory: 3 bits a row, and the copies until they are written.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace dslide {

// A set of numbers below a bound.
class RowSet {
 public:
  RowSet(uint32_t rows, bool full)
      : words_((size_t{rows} + 63) / 64, full ? ~uint64_t{0} : 0), rows_(rows) {}

  bool Has(uint32_t row) const { return (words_[row / 64] >> row % 64 & 1) != 0; }
  void Add(uint32_t row) { words_[row / 64] |= uint64_t{1} << row % 64; }
  void Remove(uint32_t row) { words_[row / 64] &= ~(uint64_t{1} << row % 64); }
  void Clear();
  void Fill();
  uint32_t Count() const;
  void AddAll(const RowSet& other);
  // Rows [begin, end) are in the set, or are not.
  void Set(uint32_t begin, uint32_t end, bool in);
  // Rows [0, rows) from now on, the new ones not in the set. REQUIRES that they do not become
  // fewer.
  void Grow(uint32_t rows);
  // The first row of [begin, end).
  std::optional<uint32_t> Next(uint32_t begin, uint32_t end) const;
  std::optional<uint32_t> Next(uint32_t begin) const { return Next(begin, rows_); }

 private:
  std::vector<uint64_t> words_;
  uint32_t rows_;
};

// Is told of each row that is about to change.
class RowFollower {
 public:
  virtual ~RowFollower() = default;
  virtual void BeforeChange(uint32_t row) noexcept = 0;
};

class ChangedRows {
 public:
  // Appends what a row is now to *out.
  using Store = std::function<void(uint32_t row, std::vector<uint8_t>* out)>;

  // Rows [0, rows), all of which count as changed.
  explicit ChangedRows(uint32_t rows);

  // A row, or what `store` has of it, is about to change. Ends the process if there is no memory
  // for the copy: the row must not change without it, nor half of a batch be applied.
  void BeforeChange(uint32_t row) noexcept {
    BeforeUpkeep(row);
    if (follower_ != nullptr) follower_->BeforeChange(row);
  }
  // The same, but what changes follows from the row, and no follower wants to know.
  void BeforeUpkeep(uint32_t row) noexcept {
    changed_.Add(row);
    if (unwritten_.Has(row)) SetAside(row);
  }
  // Null: nobody is told. `follower` must outlive this, or be replaced before.
  void Follow(RowFollower* follower) { follower_ = follower; }
  // The store has an older state of the row.
  void MarkChanged(uint32_t row) { changed_.Add(row); }
  // No row is changed: the store has them all.
  void Forget() { changed_.Clear(); }
  // All rows are: the store has none.
  void MarkAll() { changed_.Fill(); }

  // Rows [0, rows) from now on; the new ones are not changed. REQUIRES that they do not become
  // fewer.
  void Grow(uint32_t rows);
  // Rows [begin, end) are others from now on, all of them changed. REQUIRES that no snapshot that
  // is in progress has them.
  void Renew(uint32_t begin, uint32_t end);

  // Begins a snapshot of the rows that are changed now; none is changed afterwards. What the last
  // snapshot wrote is taken for stored.
  void Mark(Store store);
  // Appends the first of its rows in [begin, end) as it was at the mark; none: there is none.
  // REQUIRES that none of them was written yet.
  std::optional<uint32_t> Write(uint32_t begin, uint32_t end, std::vector<uint8_t>* out);
  // What the last snapshot wrote or was to write counts as changed again.
  void Abort();

 private:
  void SetAside(uint32_t row);

  RowSet changed_;    // since the mark
  RowSet snapshot_;   // rows of the last snapshot
  RowSet unwritten_;  // those of them that are still to be written from memory
  Store store_;
  RowFollower* follower_ = nullptr;
  std::unordered_map<uint32_t, std::vector<uint8_t>> aside_;
};

}  // namespace dslide
