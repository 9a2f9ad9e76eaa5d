// How large a batch's numbers may be, learned from what other workers send.
//
// A worker can send finite numbers that ruin a model for good, and no fixed bound tells them from
// those of large features or of another model. The batches of honest workers are alike: they are
// drawn at random from the same data. So a batch's largest row norm is compared with those that
// each sender has had taken lately: with 4 times the 99th percentile of the other senders, of
// which the (upper) median counts, so that no single sender can move the bound of another one or
// its own.
//
//   other senders with kEnough batches   bound
//   2 or more                            kFactor x the median of their percentiles
//   1                                    kFewFactor x the larger one of its and the sender's own;
//                                        kNewFactor x its, if the sender has none
//   none                                 kFewFactor x the sender's own percentile; none at first
//
// A large batch need not be a lie: its samples may be large. The batch is trained again, and is
// taken when a second worker sends it alike, or the only worker for the kTries-th time. If a second
// worker sends it within the bound, and kFactor times smaller, the first one has lied. If every
// sender of late is refused, for kOnEnd batches on end, it is the training that has changed, and
// the bound is learned anew.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/security/keys.h"

namespace dslide {

class NormBound {
 public:
  static constexpr size_t kEnough = 8;    // batches of a sender before its percentile counts
  static constexpr size_t kWindow = 128;  // of its last batches
  static constexpr float kFactor = 4;
  static constexpr float kFewFactor = 64;
  static constexpr float kNewFactor = 65536;
  static constexpr float kAlike = 2;  // two norms of the same batch: at most this factor apart
  static constexpr uint32_t kTries = 3;
  static constexpr size_t kOnEnd = 64;
  static constexpr size_t kRecent = 256;         // taken batches whose senders are those of late
  static constexpr size_t kMostSenders = 256;    // whose norms are kept: those of late
  static constexpr size_t kMostSuspects = 1024;  // batches

  // Whether a batch with this largest norm is taken. Rows of zeros say nothing. Infinity is too
  // large from the first batch on.
  [[nodiscard]] bool Takes(Incarnation sender, const BatchId& batch, float norm);

  // The same for a batch that cannot be too large, and is no suspect.
  void NoteTaken(Incarnation sender) { NoteTaken(FingerprintOf(sender)); }

  // A worker has left: who is there now need not agree with it.
  void Forget(Incarnation sender);

  // None: nothing is too large yet.
  std::optional<float> BoundOf(Incarnation sender) const;

  // Whether batches that were too large wait for a second worker.
  bool has_suspects() const { return !suspects_.empty(); }

  struct Lie {
    Incarnation sender;
    BatchId batch;
    bool operator==(const Lie&) const = default;
  };
  // Those that were found out since the last call.
  std::vector<Lie> TakeLies() { return std::exchange(lies_, {}); }

 private:
  struct Sender {
    std::deque<float> norms;  // of its last batches
    float percentile = 0;
    uint64_t turn = 0;
    bool counts() const { return norms.size() >= kEnough; }
  };
  struct Suspect {
    Incarnation sender;
    float norm = 0;
    uint32_t times = 0;
  };

  using Key = uint32_t;  // members of one key are one sender

  bool TakesSuspect(Incarnation sender, const BatchId& batch, float norm);
  bool IsTraining(Key refused);
  void Add(Key sender, float norm);
  void NoteTaken(Key sender);

  std::map<Key, Sender> senders_;
  std::map<BatchId, Suspect> suspects_;
  std::map<BatchId, float> accepted_;  // suspects that were taken, which may begin again
  std::deque<Key> recent_;             // senders of the last batches that were taken
  std::set<Key> refused_;              // senders since then
  size_t refusals_ = 0;                // since then
  std::vector<Lie> lies_;
  uint64_t turn_ = 0;
};

}  // namespace dslide
