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
// A percentile below the typical norm of such numbers counts as that: a worker that is there first
// cannot shut out all others by numbers near 0.
//
// A large batch need not be a lie: its samples may be large. The batch is trained again, and is
// taken when a second worker sends it alike, or the only worker for the kTries-th time. If a second
// worker sends it within the bound, and kFactor times smaller, the first one has lied. Refusals of
// a sender count until one of its batches is within the bound. If there are kOnEnd of them, of more
// than half of the senders of late with kOfOneSender each, it is the training that has changed, or
// the others have lied: the bound is learned anew. During the next kRecent batches the other
// senders set no bound while one of the senders of late has fewer than kEnough batches. Otherwise
// the senders that have lied would set the first bound again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
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
  static constexpr size_t kOfOneSender = 8;
  static constexpr size_t kRecent = 256;         // taken batches whose senders are those of late
  static constexpr size_t kMostSenders = 256;    // whose norms are kept: those of late
  static constexpr size_t kMostSuspects = 1024;  // batches

  // `typical`: the norm that such numbers have in most models.
  explicit NormBound(float typical = 0) : typical_(typical) {}

  // Whether a batch with this largest norm is taken. Rows of zeros say nothing. Infinity is too
  // large from the first batch on.
  [[nodiscard]] bool Takes(Incarnation sender, const BatchId& batch, float norm);

  // The same for a batch that cannot be too large, and is no suspect.
  void NoteTaken(Incarnation sender) { NoteTaken(FingerprintOf(sender)); }

  // A worker has left: who is there now need not agree with it.
  void Forget(Incarnation sender);

  // None: nothing is too large yet.
  std::optional<float> BoundOf(Incarnation sender) const;

  // For people, who has set the bounds: the keys' fingerprints with their percentiles, as
  // "0a1b2c3d 1.5, 1b2c3d4e 0.7"; of many the first kShownSenders. "": nobody has.
  static constexpr size_t kShownSenders = 8;
  std::string Basis() const;

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
  void NoteLate(Key sender);
  float PercentileOf(const Sender& sender) const { return std::max(sender.percentile, typical_); }

  float typical_;
  std::map<Key, Sender> senders_;
  std::map<BatchId, Suspect> suspects_;
  std::map<BatchId, float> accepted_;  // suspects that were taken, which may begin again
  std::deque<Key> recent_;             // senders of the last batches that were taken
  std::map<Key, size_t> late_;         // how often each is in recent_
  size_t learning_ = 0;                // batches for which a bound is learned anew
  std::map<Key, size_t> refusals_;     // of senders, since a batch of theirs was within the bound
  std::vector<Lie> lies_;
  uint64_t turn_ = 0;
};

}  // namespace dslide
