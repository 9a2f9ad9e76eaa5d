// What the link to one server carries, measured by the training messages themselves: the round trip
// of an empty message, the bandwidth, and how much of it is in use.
//
// Elapsed time less what the server needed is the round trip plus the time that the bytes took. Of
// each kind of request the quickest of late is kept (other messages in the same queues only make it
// slower), and a line through the kind with the fewest bytes and the kind with the most gives the
// round trip and the time a byte takes. Where several servers share the worker's own link each sees
// its share of it. Pure: times come in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dslide {

class LinkMeter {
 public:
  // A reply came `elapsed_us` after its request (number `kind`, below kKinds), of which the server
  // had them for `service_us`; the two had `bytes` in all.
  void Note(int64_t now_us, size_t kind, int64_t elapsed_us, int64_t service_us, size_t bytes);

  // Microseconds; 0: not known yet.
  double round_trip_us() const { return round_trip_us_; }
  // 0: not known yet.
  double bits_per_second() const { return bits_per_second_; }
  // Bits sent and received per second over the bandwidth; 0: not known yet. Changes with each
  // window.
  double busy() const { return busy_; }
  // Windows measured so far: who acts on busy() does so once a window.
  uint64_t windows() const { return windows_; }

  static constexpr size_t kKinds = 8;

 private:
  static constexpr int64_t kWindowUs = 4'000'000;
  static constexpr double kLeastBytes = 8192;  // between the two kinds: less tells nothing
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
