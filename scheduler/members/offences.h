// Offences: acts of members that no honest member commits (section 16 of schema/PROTOCOL.md). The
// third offence within an hour excludes the member: a single one may be a fault of a machine or of
// this program.
//
// The scheduler sees some offences itself. Servers complain of others, and a server may lie: a
// complaint is an offence when servers of two keys complain of the same worker within kTogetherMs.
// These servers are the worker's accusers. The complaints of one key alone make the worker doubted,
// which costs it long leases, and time while it ends no batch; a server that complains of several
// workers makes none of them doubted.
//
// Offences and complaints are counted by the upper half of an incarnation, which members of one key
// have in common, so that a new incarnation does not erase them. Pure; used by the scheduler's
// thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/ids.h"

namespace dslide {

class Offences {
 public:
  static constexpr size_t kMost = 3;               // with this one a member is excluded
  static constexpr int64_t kWithinMs = 3'600'000;  // earlier ones do not count any more
  static constexpr int64_t kTogetherMs = 10'000;
  static constexpr int64_t kDoubtMs = 60'000;  // a member is doubted after a complaint
  static constexpr int64_t kSlowMs = 600'000;

  // Servers on whose complaints an offence or a quarantine rests, by the fingerprints of their
  // keys.
  using Accusers = std::set<uint32_t>;

  // The upper half of an incarnation, which members of one key have in common. In a run without
  // keys a member stands for itself.
  static uint32_t IdentityOf(Incarnation member);

  // The basis of an offence: its accusers, {} if the scheduler has seen it itself. none: it may be
  // the fault of others, and does not count.
  using Evidence = std::optional<Accusers>;

  // A member has committed an offence. Returns whether it is to be excluded: the accusers of all
  // offences that this rests on.
  [[nodiscard]] std::optional<Accusers> Note(Incarnation member, const Evidence& evidence,
                                             int64_t now_ms);

  // A server complains of a member. Returns the accusers if the complaint is an offence: none while
  // servers of one key alone complain.
  [[nodiscard]] Accusers Complain(Incarnation server, Incarnation member, int64_t now_ms);
  bool IsDoubted(Incarnation member, int64_t now_ms) const;

  // The batches of a member have a higher loss than those of others (loss_outliers.h): it is slowed
  // for kSlowMs.
  void Slow(Incarnation member, int64_t now_ms);
  bool IsSlowed(Incarnation member, int64_t now_ms) const;

  uint64_t total() const { return total_; }

 private:
  struct Counted {
    int64_t at_ms;
    Accusers accusers;
  };

  uint64_t total_ = 0;
  std::map<uint32_t, std::vector<Counted>> counted_;  // by fingerprint
  // When a server complained last, by fingerprints of the member and of the server.
  std::map<uint32_t, std::map<uint32_t, int64_t>> complaints_;
  std::map<uint32_t, int64_t> slowed_;  // by fingerprint: since when
};

}  // namespace dslide
