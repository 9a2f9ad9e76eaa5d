// What a process that asks to join may claim, how many members there may be, and how fast they may
// come. schema/PROTOCOL.md has the same numbers. Pure: time is passed in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/wire/messages.h"
#include "scheduler/members/roster.h"

namespace dslide {

constexpr size_t kLongestName = 64;                       // bytes, of a member
constexpr size_t kLongestAddress = 255;                   // bytes, that a member advertises
constexpr uint32_t kMostCores = 4096;                     // of a member
constexpr uint64_t kMostMemoryBytes = uint64_t{1} << 46;  // of a server, 64 TiB

constexpr size_t kMostServers = 1024;
constexpr size_t kMostObservers = 256;
constexpr size_t kMostOfConnection = 4;  // a member that begins a new life keeps its connection

// Why what a Join says is no sense; "" if it is. One line without what strangers wrote.
std::string WhyNonsense(const Join& join);
// Why nobody of this role can join any more; "" if somebody can. `most_workers`:
// cluster.most_workers.
std::string WhyFull(Role role, const Roster& roster, size_t most_workers);

// How many may join: a thousand at once, then 200 a second.
class JoinRate {
 public:
  static constexpr int64_t kASecond = 200;
  static constexpr int64_t kAtOnce = 1000;

  // A process joins. False: too many have.
  bool Take(int64_t now_ms) {
    const int64_t passed_ms = std::max<int64_t>(0, now_ms - filled_ms_);
    thousandths_ = std::min(kAtOnce * 1000, thousandths_ + std::min(passed_ms, kFullMs) * kASecond);
    filled_ms_ = now_ms;
    if (thousandths_ < 1000) return false;
    thousandths_ -= 1000;
    return true;
  }

 private:
  static constexpr int64_t kFullMs = kAtOnce * 1000 / kASecond;
  int64_t thousandths_ = kAtOnce * 1000;  // of a join
  int64_t filled_ms_ = 0;
};

}  // namespace dslide
