// Measures the link to one server by the training messages themselves: the round trip of an empty
// message, the bandwidth, and how much of it is in use.
//
// Elapsed time minus the server's service time is the round trip plus the transfer time of the
// bytes. For each kind of request the meter keeps the quickest of a window (other messages in the
// queues only make one slower). A line through the kinds with the fewest and the most bytes gives
// the round trip and the time per byte. If servers share the worker's own link, each meter sees a
// share of it. Pure: times are passed in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dslide {

class LinkMeter {
 public:
  // Notes a reply `elapsed_us` after its request, of which `service_us` at the server. `kind` <
  // kKinds: kind of the request. `bytes`: of request and reply together.
  void Note(int64_t now_us, size_t kind, int64_t elapsed_us, int64_t service_us, size_t bytes);

  // Microseconds; 0: not known yet.
  double round_trip_us() const { return round_trip_us_; }
  // 0: not known yet.
  double bits_per_second() const { return bits_per_second_; }
  // Bits sent and received per second over the bandwidth; 0: not known yet. Changes with each
  // window.
  double busy() const { return busy_; }
  // Windows measured so far. Act on busy() at most once per window.
  uint64_t windows() const { return windows_; }

  static constexpr size_t kKinds = 8;

 private:
  static constexpr int64_t kWindowUs = 4'000'000;
  static constexpr double kLeastBytes = 8192;  // least difference of the two kinds
  static constexpr double kMostBitsPerSecond = 1e11;

  struct Quickest {
    double us = 0;  // 0: none
    double bytes = 0;
  };
  void EndWindow(double seconds);

  int64_t window_began_us_ = 0;
  double window_bytes_ = 0;
  std::array<Quickest, kKinds> quickest_{};
  double round_trip_us_ = 0;
  double bits_per_second_ = 0;
  double busy_ = 0;
  uint64_t windows_ = 0;
};

}  // namespace dslide
