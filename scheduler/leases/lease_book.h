// The state of every batch of the pass in progress: free, leased or done.
//
// A pass is one epoch of training or one evaluation. Its batches are numbered (unit, index). A
// holder is a worker, by its incarnation: names change hands. A lease holds batches of one unit.
// When it ends, its unfinished batches become free again. Every batch counts once, whoever reports
// it. Progress renews a lease, and the holder's leases on later batches: a holder works in the
// order of batch numbers. A lease without progress expires.
//
// At the end of a pass, when every batch is leased, idle workers get second copies of batches that
// others hold (LeaseBackup). The first report counts. Pure: time is passed in, in milliseconds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/run/batch_number.h"
#include "scheduler/leases/batch_runs.h"

namespace dslide {

struct Lease {
  uint64_t id = 0;
  uint32_t unit = 0;
  std::vector<uint32_t> batches;  // indices within the unit, ascending
};

// Limits of one lease. Batches are numbers within the pass.
struct LeaseLimits {
  uint32_t batches = std::numeric_limits<uint32_t>::max();  // the most batches, >= 1
  uint64_t end = std::numeric_limits<uint64_t>::max();      // only batches before this one
  // Synchronous training: batches from `open` on have to wait for their step; a holder has at most
  // `share` (>= 1) of them at a time.
  uint64_t open = std::numeric_limits<uint64_t>::max();
  uint64_t share = std::numeric_limits<uint64_t>::max();
};

// A lease that has not ended.
struct OpenLease {
  uint64_t id = 0;
  Incarnation holder;
  uint32_t unit = 0;
  uint32_t granted = 0;    // batches when it was granted
  uint32_t left = 0;       // batches not done yet
  int64_t granted_ms = 0;  // time of the grant, or of the last RenewFrom()
  int64_t renewed_ms = 0;
  bool copy = false;  // by LeaseBackup
};

class LeaseBook {
 public:
  // Batches per second of a holder; 0: not known.
  using Speed = std::function<double(Incarnation holder)>;

  // A pass of `batches` batches, `unit_batches` to a unit (the last unit may have fewer). Its
  // leases are numbered from `first_lease` on.
  LeaseBook(uint64_t batches, uint32_t unit_batches, uint64_t first_lease = 1);

  uint64_t batches() const { return batches_; }
  uint64_t done() const { return done_count_; }
  bool complete() const { return done_count_ == batches_; }
  size_t leases() const { return leases_.size(); }
  uint64_t first_lease() const { return first_lease_; }
  uint64_t next_lease() const { return next_lease_; }
  // How often a batch has become free: while this stays, Grant() has nothing new.
  uint64_t freed() const { return freed_; }
  bool IsDone(uint32_t unit, uint32_t index) const;
  std::vector<OpenLease> OpenLeases() const;  // in the order of their grants
  // Who has leases of a batch.
  std::vector<Incarnation> HoldersOf(uint32_t unit, uint32_t index) const;

  // Marks a batch done that counted in an earlier life of the scheduler.
  void Restore(uint32_t unit, uint32_t index) { Mark(unit, index); }

  // Leases the next batches to `holder`: the first free one and the next free ones of its unit;
  // nullopt if there are none within the limits.
  std::optional<Lease> Grant(Incarnation holder, int64_t now_ms, const LeaseLimits& limits = {});

  // For when Grant() has nothing below limits.end: leases second copies of another holder's
  // batches, those of the lease that is expected to end last. Takes them from the lease's back, as
  // many as let both holders end at the same time; nullopt if this holder would not be quicker. A
  // batch has at most one copy at a time. A holder's expected time is its batches over its speed,
  // and at least the time that it has gone without progress; an unknown speed counts as the middle
  // one of those that are known. Among very many leases the expectations are a fraction of a second
  // old. Ignores limits.open and limits.share: batches that have to wait should lie beyond
  // limits.end.
  std::optional<Lease> LeaseBackup(Incarnation holder, int64_t now_ms, const Speed& speed,
                                   const LeaseLimits& limits = {});

  // A lease that the book does not know, for a batch that counts already.
  Lease Again(uint32_t unit, uint32_t index) { return {next_lease_++, unit, {index}}; }

  // Reports a trained batch. True if it counts: this is the batch's first report; unknown batches
  // never count. A report that counts renews this lease, and the holder's leases on later batches.
  // A lease ends with its last batch, whoever trained it.
  bool Done(uint64_t lease, uint32_t unit, uint32_t index, int64_t now_ms);

  // Takes one batch that is not done back from its holder. False: the holder has no lease of it.
  bool GiveBack(Incarnation holder, uint32_t unit, uint32_t index);
  // Makes the batches that are done, from batch `begin` on, free.
  void Reopen(uint64_t begin);
  // Ends all leases of a holder, or all leases without progress for `timeout_ms`; returns their
  // number.
  size_t Return(Incarnation holder);
  size_t Expire(int64_t now_ms, int64_t timeout_ms);

  // Renews the leases whose batches all lie at or after batch `begin`, as if they were granted now:
  // they could make no progress.
  void RenewFrom(uint64_t begin, int64_t now_ms);

 private:
  struct Held {
    Incarnation holder;
    uint32_t unit;
    uint32_t granted;
    int64_t granted_ms;
    int64_t renewed_ms;
    bool copy;
    std::vector<uint32_t> left;  // batches not done, ascending; never empty
  };
  // The leases that hold a batch; 0: none.
  using Holders = std::array<uint64_t, 2>;
  // A lease whose batches LeaseBackup() could copy.
  struct Late {
    uint64_t lease;
    double end_s;  // expected, from now
    double speed;  // of its holder
  };

  uint64_t Number(uint32_t unit, uint32_t index) const {
    return NumberInPass(unit, index, unit_batches_);
  }
  uint32_t UnitSize(uint32_t unit) const;
  bool Mark(uint32_t unit, uint32_t index);
  Lease Open(Incarnation holder, uint32_t unit, std::vector<uint32_t> batches, bool copy,
             int64_t now_ms);
  void Drop(uint64_t lease, uint64_t batch);
  void Forget(Incarnation holder, uint64_t lease);
  // Calls `use` with each lease of a holder, in the order of their grants.
  template <typename Use>
  void ForEachOf(Incarnation holder, const Use& use);
  void Free(uint64_t batch);
  void LookForLate(const Speed& speeds, uint64_t end, int64_t now_ms);
  std::vector<uint32_t> ToCopy(const Held& held, size_t most, uint64_t end) const;
  template <typename Predicate>
  size_t EndWhere(Predicate predicate);

  uint64_t batches_;
  uint32_t unit_batches_;
  uint64_t first_lease_;
  uint64_t next_lease_;
  uint64_t done_count_ = 0;
  std::vector<uint8_t> done_;                      // [batches]
  BatchRuns free_;                                 // neither done nor leased
  std::unordered_map<uint64_t, Holders> holders_;  // of leased batches
  std::map<uint64_t, Held> leases_;
  std::map<Incarnation, std::set<uint64_t>> of_;  // ids of leases_, by holder
  uint64_t freed_ = 0;
  // What LeaseBackup() has to choose from.
  std::vector<Late> late_;   // the latest end last, without those that have been copied since
  double middle_speed_ = 1;  // of the holders whose speeds are known
  uint64_t late_end_ = 0;    // limits.end
  std::optional<int64_t> late_ms_;  // when that was
  bool changed_ = false;            // have leases since then
};

}  // namespace dslide
