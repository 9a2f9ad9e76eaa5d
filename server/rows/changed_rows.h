// The rows of a layer that the next checkpoint has to write, and the snapshot in progress.
//
// Copy-on-write: the mark only swaps bitmaps. Afterwards a row that the snapshot has not yet
// written is copied aside before it changes. The snapshot can write these copies before their turn
// (Aside(), WriteAside()), which bounds what they take.
//
// Memory: 3 bits per row, plus each copy until it is written.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace dslide {

// A set of row numbers below a bound, one bit each.
class RowSet {
 public:
  RowSet(uint32_t rows, bool full)
      : words_((size_t{rows} + 63) / 64, full ? ~uint64_t{0} : 0), rows_(rows) {}

  uint32_t rows() const { return rows_; }
  bool Has(uint32_t row) const { return (words_[row / 64] >> row % 64 & 1) != 0; }
  void Add(uint32_t row) { words_[row / 64] |= uint64_t{1} << row % 64; }
  void Remove(uint32_t row) { words_[row / 64] &= ~(uint64_t{1} << row % 64); }
  void Clear();
  void Fill();
  uint32_t Count() const;
  void AddAll(const RowSet& other);
  // Puts rows [begin, end) into the set, or takes them out of it.
  void Set(uint32_t begin, uint32_t end, bool in);
  // Raises the bound to `rows`; the new rows are not in the set. REQUIRES rows >= the present
  // bound.
  void Grow(uint32_t rows);
  // Regions of `before` rows become regions of `after`.
  void Spread(uint32_t before, uint32_t after, uint32_t regions);
  // The first row of the set in [begin, end).
  std::optional<uint32_t> Next(uint32_t begin, uint32_t end) const;
  std::optional<uint32_t> Next(uint32_t begin) const { return Next(begin, rows_); }

 private:
  std::vector<uint64_t> words_;
  uint32_t rows_;
};

// Called before each change of a row.
class RowFollower {
 public:
  virtual ~RowFollower() = default;
  virtual void BeforeChange(uint32_t row) noexcept = 0;
};

class ChangedRows {
 public:
  // Appends the row's present stored form to *out.
  using Store = std::function<void(uint32_t row, std::vector<uint8_t>* out)>;

  // Rows [0, rows), all marked as changed.
  explicit ChangedRows(uint32_t rows);

  // Call before a row, or other state that `store` writes for it, changes. Ends the process if
  // there is no memory for the copy: the row must not change without one, and half a batch must not
  // be applied.
  void BeforeChange(uint32_t row) noexcept {
    BeforeUpkeep(row);
    if (follower_ != nullptr) follower_->BeforeChange(row);
  }
  // The same for state that is derived from the row; the follower is not called.
  void BeforeUpkeep(uint32_t row) noexcept {
    changed_.Add(row);
    if (unwritten_.Has(row)) SetAside(row);
  }
  // Sets the follower; null: none. It must outlive this object or be replaced first.
  void Follow(RowFollower* follower) { follower_ = follower; }
  // Marks a row as changed: its stored form is out of date.
  void MarkChanged(uint32_t row) { changed_.Add(row); }
  // Marks all rows as unchanged: the checkpoint has them.
  void Forget() { changed_.Clear(); }
  // Marks all rows as changed: the checkpoint has none of them.
  void MarkAll() { changed_.Fill(); }

  // Extends to rows [0, rows); the new rows are not changed. REQUIRES that `rows` does not shrink.
  void Grow(uint32_t rows);
  // Regions of `before` rows become regions of `after`; the rows keep their places in their
  // regions. REQUIRES after >= before and no snapshot in progress.
  void Spread(uint32_t before, uint32_t after, uint32_t regions);
  // Rows [begin, end) were replaced by another slot's; all count as changed. REQUIRES that no
  // snapshot in progress contains them.
  void Renew(uint32_t begin, uint32_t end);

  // Begins a snapshot of the changed rows and marks all rows as unchanged. The rows of the previous
  // snapshot count as stored.
  void Mark(Store store);
  // Appends the snapshot's first row in [begin, end) as it was at the mark, and returns its number;
  // nullopt: the range has none. Rows that WriteAside() wrote are left out. REQUIRES that Write()
  // wrote no row of the range before.
  std::optional<uint32_t> Write(uint32_t begin, uint32_t end, std::vector<uint8_t>* out);
  // The rows that are copied aside and not written, in any order, and about what their copies take.
  std::vector<uint32_t> Aside() const;
  size_t aside_bytes() const { return aside_bytes_; }
  // Appends a row's copy, and forgets it. REQUIRES that the row is one of Aside().
  void WriteAside(uint32_t row, std::vector<uint8_t>* out);
  // Marks all rows of the last snapshot as changed again, written or not.
  void Abort();

 private:
  static constexpr size_t kCopyBytes = 64;  // of a copy's place in aside_

  void SetAside(uint32_t row);
  void ForgetAside();

  RowSet changed_;    // since the mark
  RowSet snapshot_;   // rows of the last snapshot
  RowSet unwritten_;  // rows of the snapshot neither written nor copied aside
  Store store_;
  RowFollower* follower_ = nullptr;
  std::unordered_map<uint32_t, std::vector<uint8_t>> aside_;
  size_t aside_bytes_ = 0;
};

}  // namespace dslide
