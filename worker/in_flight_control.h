// How many batches a worker keeps in flight: enough that the servers always have work from this
// worker, and no more, because each further batch makes the other batches' gradients staler.
//
// Of n batches in flight, n * (time at servers / time in flight) are at servers (Little's law). The
// time at servers includes queues; servers report it. Below 1 the servers sometimes wait for this
// worker (a long round trip), and n is raised. The raise is undone unless the worker's speed grows
// by at least a quarter of what it would if latency alone limited it (a full link gains nothing).
// Above kMostAtServers requests only queue, and n is lowered. Compare the window of TCP Vegas:
// Brakmo, Peterson, IEEE JSAC 13(8), 1995.
//
// Pure: times are passed in.
#pragma once

#include <cstdint>

#include "common/config/limits.h"

namespace dslide {

class InFlightControl {
 public:
  static constexpr uint32_t kFewest = 2;
  static constexpr uint32_t kMost = 16;
  static_assert(kMost <= kMostBatchesInFlight);

  // `fixed`: the limit (train.batches_in_flight); 0: adapts.
  explicit InFlightControl(uint32_t fixed)
      : limit_(fixed > 0 ? fixed : kFewest), fixed_(fixed > 0) {}

  uint32_t limit() const { return limit_; }

  // Notes a finished batch: it took `elapsed_us`, of which `service_us` at servers.
  void Note(int64_t now_us, int64_t elapsed_us, int64_t service_us);
  // Another limit holds for now: the current round, and a raise on trial, are undone. The next
  // Note() begins a new round.
  void Interrupt();

 private:
  static constexpr double kMostAtServers = 2.5;
  static constexpr double kLeastGain = 0.25;    // of the gain hoped for
  static constexpr uint32_t kRoundBatches = 8;  // least number between two decisions
  static constexpr uint32_t kLongestPause = 64;

  void Decide(double rate, double at_servers);
  void Change(uint32_t limit);

  uint32_t limit_;
  bool fixed_;
  // The current round of measurement.
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
  uint32_t next_pause_ = 4;  // doubles with each raise that is undone
};

}  // namespace dslide
