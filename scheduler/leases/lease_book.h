// Which batches of the pass in progress are to do, leased or done.
//
// A pass is one epoch of training or one evaluation. Its batches are numbered (unit, index). A
// holder is a worker, by its incarnation: names change hands. A lease is of batches of one unit, as
// many as its holder is given; what of them is not done when the lease ends goes back to be leased
// again. Every batch counts once, whoever reports it. Progress renews a lease, and those of the
// same holder that lie behind the batch that was done: a holder does its batches in the order of
// their numbers. Silence ends it.
//
// At the end of a pass, when everything is leased, those who have nothing to do get second copies
// of batches that others hold (LeaseBackup). The first report counts. Pure: time comes in as
// milliseconds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "scheduler/leases/batch_runs.h"

namespace dslide {

struct Lease {
  uint64_t id = 0;
  uint32_t unit = 0;
  std::vector<uint32_t> batches;  // indices within the unit, ascending
};

// How far a lease may go. Batches are numbers within the pass.
struct LeaseLimits {
  uint32_t batches = std::numeric_limits<uint32_t>::max();  // at most so many, >= 1
  uint64_t end = std::numeric_limits<uint64_t>::max();      // none at or behind this one
  // Synchronous training: of the batches at or behind `open`, which have to wait for their step, a
  // holder has at most `share` (>= 1) at a time.
  uint64_t open = std::numeric_limits<uint64_t>::max();
  uint64_t share = std::numeric_limits<uint64_t>::max();
};

// A lease that has not ended.
struct OpenLease {
  uint64_t id = 0;
  Incarnation holder;
  uint32_t unit = 0;
  uint32_t granted = 0;    // batches when it was given
  uint32_t left = 0;       // not done yet
  int64_t granted_ms = 0;  // or could make no progress until then
  int64_t renewed_ms = 0;
  bool copy = false;  // by LeaseBackup
};

class LeaseBook {
 public:
  // Batches a second of a holder; 0: not known.
  using Speed = std::function<double(Incarnation holder)>;

  // A pass of `batches` batches, `unit_batches` to a unit (the last unit may have fewer).
  LeaseBook(uint64_t batches, uint32_t unit_batches);

  uint64_t batches() const { return batches_; }
  uint64_t done() const { return done_count_; }
  bool complete() const { return done_count_ == batches_; }
  size_t leases() const { return leases_.size(); }
  bool IsDone(uint32_t unit, uint32_t index) const;
  std::vector<OpenLease> OpenLeases() const;  // in the order in which they were given

  // Marks a batch done that counted in an earlier life of the scheduler.
  void Restore(uint32_t unit, uint32_t index) { Mark(unit, index); }

  // Leases the next batches to `holder`: the first that nobody holds, and those of its unit behind
  // it; nullopt if there are none within the limits.
  std::optional<Lease> Grant(Incarnation holder, int64_t now_ms, const LeaseLimits& limits = {});

  // When Grant() has nothing below limits.end: second copies of batches that another holder has, of
  // the lease that is expected to end last. From its back, and so many that both would be ready at
  // the same time; none if this holder would not be quicker. A batch has one copy at most at a
  // time. A holder is expected to need its batches over its speed, and if it had no progress for
  // some time as long again at least; one of unknown speed is as quick as the other. limits.open
  // and limits.share do not matter: what has to wait should lie behind limits.end.
  std::optional<Lease> LeaseBackup(Incarnation holder, int64_t now_ms, const Speed& speed,
                                   const LeaseLimits& limits = {});

  // A batch was trained. True if it counts: it is the first report of it. Unknown batches never do.
  // Renews the lease, and its holder's others of later batches only; a lease ends with its last
  // batch, whoever did it.
  bool Done(uint64_t lease, uint32_t unit, uint32_t index, int64_t now_ms);

  // Ends all leases of a holder, or all that had no progress for `timeout_ms`; returns how many.
  size_t Return(Incarnation holder);
  size_t Expire(int64_t now_ms, int64_t timeout_ms);

  // Renews the leases whose batches all lie at or behind batch `begin`, as if they were granted
  // now: they could make no progress.
  void RenewFrom(uint64_t begin, int64_t now_ms);

 private:
  struct Held {
    Incarnation holder;
    uint32_t unit;
    uint32_t granted;
    int64_t granted_ms;
    int64_t renewed_ms;
    bool copy;
    std::vector<uint32_t> left;  // batches that are not done, ascending; never empty
  };
  // The leases that have a batch; 0: none.
  using Holders = std::array<uint64_t, 2>;
  // A lease that LeaseBackup() could take batches of.
  struct Late {
    uint64_t lease;
    double end_s;  // expected, from now
    double speed;  // its holder's
  };

  uint64_t Number(uint32_t unit, uint32_t index) const {
    return uint64_t{unit} * unit_batches_ + index;
  }
  uint32_t UnitSize(uint32_t unit) const;
  bool Mark(uint32_t unit, uint32_t index);
  Lease Open(Incarnation holder, uint32_t unit, std::vector<uint32_t> batches, bool copy,
             int64_t now_ms);
  void Drop(uint64_t lease, uint64_t batch);
  std::vector<Late> Latest(Incarnation except, double speed, const Speed& speeds,
                           int64_t now_ms) const;
  template <typename Predicate>
  size_t EndWhere(Predicate predicate);

  uint64_t batches_;
  uint32_t unit_batches_;
  uint64_t done_count_ = 0;
  uint64_t next_lease_ = 1;
  std::vector<uint8_t> done_;                      // [batches]
  BatchRuns free_;                                 // neither done nor leased
  std::unordered_map<uint64_t, Holders> holders_;  // of batches that are leased
  std::map<uint64_t, Held> leases_;
};

}  // namespace dslide
