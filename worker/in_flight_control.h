// How many batches a worker keeps in flight.
//
// Enough that the servers always have something of this worker's to do, and no more: each batch
// more makes the others' gradients staler. Of n batches in flight, n times the share of their time
// that requests spend at servers (queues included, as the servers tell) are at servers, the rest is
// on the way. Where that is below 1 the servers run dry for want of this worker's requests (a long
// round trip), and the number is raised; the raise is taken back unless the worker's own speed has
// grown by at least a quarter of what it would if latency were all that limits it (a link that is
// full gains nothing). Where it is above kMostAtServers requests only queue, and the number is
// lowered. (Little's law; compare the window of TCP Vegas: Brakmo, Peterson, IEEE JSAC 13(8),
// 1995.)
//
// Pure: times come in.
#pragma once

#include <cstdint>

#include "common/config/limits.h"

namespace dslide {

class InFlightControl {
 public:
  static constexpr uint32_t kFewest = 2;
  static constexpr uint32_t kMost = 16;
  static_assert(kMost <= kMostBatchesInFlight);

  // `fixed`: always so many (train.batches_in_flight); 0: adapts.
  explicit InFlightControl(uint32_t fixed)
      : limit_(fixed > 0 ? fixed : kFewest), fixed_(fixed > 0) {}

  uint32_t limit() const { return limit_; }

  // A batch is through its steps: it took `elapsed_us`, of which servers had it for `service_us`.
  void Note(int64_t now_us, int64_t elapsed_us, int64_t service_us);

 private:
  static constexpr double kMostAtServers = 2.5;
  static constexpr double kLeastGain = 0.25;    // of the hoped for
  static constexpr uint32_t kRoundBatches = 8;  // at least, between two decisions
  static constexpr uint32_t kLongestPause = 64;

  void Decide(double rate, double at_servers);
  void Change(uint32_t limit);

  uint32_t limit_;
  bool fixed_;
  // The round.
  uint32_t skip_ = 0;  // batches that were under way when the limit changed
  uint32_t batches_ = 0;
  int64_t started_us_ = 0;
  double elapsed_us_ = 0;
  double service_us_ = 0;
  // A raise on trial.
  bool trial_ = false;
  uint32_t limit_before_ = 0;
  double rate_before_ = 0;
  uint32_t pause_ = 0;       // rounds until the next trial
  uint32_t next_pause_ = 4;  // doubles with each raise that was taken back
};

}  // namespace dslide
