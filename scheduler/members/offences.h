// Offences of members: what no honest one does (section 16 of schema/PROTOCOL.md). Servers report
// some, and the scheduler sees others itself. The third within an hour is one too many: a single
// one may be a fault of a machine or of this program.
//
// They are counted by what members of one key have in common, the upper half of their incarnations,
// so that a new life does not wipe them out. Pure; used by the scheduler's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/base/ids.h"

namespace dslide {

class Offences {
 public:
  static constexpr size_t kMost = 3;               // with this one a member is put out
  static constexpr int64_t kWithinMs = 3'600'000;  // earlier ones do not count any more
  static constexpr size_t kKept = 100;             // for people, the oldest goes first

  struct Offence {
    Incarnation member;
    std::string reason;
    int64_t at_ms = 0;
  };

  // A member has done what `reason` says. True: it is to be put out. `counts`: false where it may
  // be the fault of others; people are told only.
  [[nodiscard]] bool Note(Incarnation member, std::string reason, bool counts, int64_t now_ms);

  uint64_t total() const { return total_; }
  const std::deque<Offence>& last() const { return last_; }  // the oldest first

 private:
  uint64_t total_ = 0;
  std::deque<Offence> last_;
  std::map<uint32_t, std::vector<int64_t>> times_;  // by fingerprint: of those that count
};

}  // namespace dslide
