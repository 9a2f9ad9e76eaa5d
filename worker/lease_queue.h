// The batches that a worker has leased and not begun, and when it asks for more.
//
// Batches begin in the order of their numbers. One whose requests failed is set aside for a while
// and begins again, so that it does not wait for the end of its lease. Pure: times are passed in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/run/step.h"
#include "common/wire/messages.h"

namespace dslide {

struct LeasedBatch {
  uint64_t number = 0;  // BatchNumber() of id()
  LeaseGrant lease;     // without batches
  LeaseBatch batch;
  int64_t begun_us = 0;   // when it was first taken into flight; 0: not yet
  uint32_t failures = 0;  // of its flights

  BatchId id() const { return {lease.epoch, lease.unit, batch.index}; }
};

class LeaseQueue {
 public:
  void Add(LeasedBatch batch);
  // Batches that may begin now; those that are set aside are not among them.
  size_t size() const { return queue_.size(); }
  bool empty() const { return queue_.empty(); }
  size_t aside() const { return set_aside_.size(); }
  // The batch with the smallest number; of equal numbers the one added first. REQUIRES !empty().
  const LeasedBatch& front() const { return queue_.begin()->second; }
  LeasedBatch Pop();

  // Sets a batch that has failed once more aside: 0.3 s the first time, then four times longer each
  // time. False: it has failed five times and is dropped.
  bool SetAside(LeasedBatch batch, int64_t now_us);
  // Returns batches to the queue that have been set aside for long enough, or all of them.
  void ReturnDue(int64_t now_us);
  void ReturnAll();
  // Forgets all batches: their leases have ended.
  void Clear();

  // Whether a lease may be asked for: no request is under way, and it is not too early.
  bool MayAsk(int64_t now_ms) const { return !asked_ms_ && now_ms >= not_before_ms_; }
  void Asked(int64_t now_ms) { asked_ms_ = now_ms; }
  // The request has its answer. The next one has to wait until `not_before_ms`.
  void Answered(int64_t not_before_ms);
  // A request without an answer for `timeout_ms` is lost.
  void ForgetLostRequest(int64_t now_ms, int64_t timeout_ms);

 private:
  std::multimap<uint64_t, LeasedBatch> queue_;     // by number
  std::multimap<int64_t, LeasedBatch> set_aside_;  // by the time, in us, at which they begin again
  std::optional<int64_t> asked_ms_;                // the request that is under way
  int64_t not_before_ms_ = 0;
};

}  // namespace dslide
