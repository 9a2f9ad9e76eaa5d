// Which work units of the pass in progress are to do, leased or done.
//
// A pass is one epoch of training or one evaluation. Its batches are numbered (unit, index); a unit
// is leased whole, and what of it is not done when its lease ends goes back to be leased again.
// Every batch counts once, whoever reports it. Progress renews a lease; silence ends it. Pure: time
// comes in as milliseconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace dslide {

struct Lease {
  uint64_t id = 0;
  uint32_t unit = 0;
  std::vector<uint32_t> batches;  // indices within the unit, ascending
};

class LeaseBook {
 public:
  // A pass of `batches` batches, `unit_batches` to a unit (the last unit may have fewer).
  LeaseBook(uint64_t batches, uint32_t unit_batches);

  uint64_t batches() const { return batches_; }
  uint64_t done() const { return done_count_; }
  bool complete() const { return done_count_ == batches_; }
  size_t leases() const { return leases_.size(); }
  bool IsDone(uint32_t unit, uint32_t index) const;

  // Marks a batch done that counted in an earlier life of the scheduler.
  void Restore(uint32_t unit, uint32_t index) { Mark(unit, index); }

  // Leases the next unit with work to `holder`; nullopt if all that is left is leased, or begins at
  // or behind batch `end`. Of what begins at or behind batch `open` a holder has at most `share`
  // units.
  std::optional<Lease> Grant(const std::string& holder, int64_t now_ms, uint64_t open, uint64_t end,
                             uint64_t share);
  std::optional<Lease> Grant(const std::string& holder, int64_t now_ms) {
    return Grant(holder, now_ms, batches_, batches_, 0);
  }

  // A batch was trained. True if it counts: it is the first report of it. Unknown batches never do.
  // Renews the holder's lease, and ends it with its last batch.
  bool Done(uint64_t lease, uint32_t unit, uint32_t index, int64_t now_ms);

  // Ends all leases of a holder, or all that had no progress for `timeout_ms`; returns how many.
  size_t Return(const std::string& holder);
  size_t Expire(int64_t now_ms, int64_t timeout_ms);

  // Renews the leases of units that begin at or behind batch `begin`: they could make no progress.
  void RenewFrom(uint64_t begin, int64_t now_ms);

 private:
  struct Held {
    std::string holder;
    uint32_t unit;
    int64_t renewed_ms;
  };
  uint64_t FirstBatch(uint32_t unit) const { return uint64_t{unit} * unit_batches_; }
  uint32_t UnitSize(uint32_t unit) const;
  bool Mark(uint32_t unit, uint32_t index);
  bool UnitDone(uint32_t unit) const;
  template <typename Predicate>
  size_t EndWhere(Predicate predicate);

  uint64_t batches_;
  uint32_t unit_batches_;
  uint64_t done_count_ = 0;
  uint64_t next_lease_ = 1;
  std::vector<uint8_t> done_;  // [batches]
  std::set<uint32_t> open_;    // units to lease
  std::map<uint64_t, Held> leases_;
};

}  // namespace dslide
