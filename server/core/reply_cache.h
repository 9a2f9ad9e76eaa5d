// Makes requests idempotent: a repeated (incarnation, sequence) gets the stored reply, and what is
// still being worked on is not started again.
//
// Memory is bounded, whatever senders do: by the replies of a sender, the bytes of all replies and
// the number of senders. Beyond these the oldest replies of the sender with the most bytes are
// forgotten, and of the senders with hardly any answered request, or else of all, the idlest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/config/limits.h"
#include "common/wire/messages.h"

namespace dslide {

class ReplyCache {
 public:
  // Replies kept per sender, and requests that it may have in progress. A repeated request finds
  // its reply, because a sender has no more requests open than that.
  static constexpr size_t kKept = 128;
  static_assert(kKept >= kMostOpenRequests);
  static constexpr size_t kSenders = 4096;
  static constexpr uint64_t kLeastBytes = uint64_t{64} << 20;

  // `most_bytes`: of all replies.
  explicit ReplyCache(uint64_t most_bytes = kLeastBytes, size_t most_senders = kSenders)
      : most_bytes_(most_bytes), most_senders_(most_senders) {}

  enum class Seen {
    kNew,
    kInProgress,
    kAnswered,
    kForgotten,  // older than all that is kept, its reply is gone
    kTooMany,    // the sender has kKept requests in progress, or all senders have some
  };

  // Notes a request.
  Seen Begin(Incarnation sender, uint64_t sequence, int64_t now_ms);

  // Stores the reply to a request in progress.
  void Finish(Incarnation sender, uint64_t sequence, std::shared_ptr<const Bytes> reply,
              int64_t now_ms = 0);

  // REQUIRES Begin() said kAnswered.
  const std::shared_ptr<const Bytes>& Reply(Incarnation sender, uint64_t sequence) const;

  bool Knows(Incarnation sender) const { return senders_.contains(sender); }
  void Forget(Incarnation sender);
  std::vector<Incarnation> Senders() const;  // those with replies kept
  // Those without a request in progress that have sent nothing since `before_ms`.
  std::vector<Incarnation> SilentSince(int64_t before_ms) const;
  uint64_t bytes() const { return bytes_; }  // of all replies that are kept

  void CheckInvariants() const;

 private:
  struct Sender {
    uint64_t forgotten = 0;  // sequences up to here are not known any more
    std::map<uint64_t, std::shared_ptr<const Bytes>> replies;  // null: in progress
    size_t in_progress = 0;
    uint64_t bytes = 0;
    int64_t heard_ms = 0;
    uint64_t turn = 0;      // of its last request
    uint64_t answered = 0;  // requests
  };

  // Fewer answers than a batch has requests: nothing is lost with this sender.
  static constexpr uint64_t kStranger = 4;

  bool MakeRoomForSender();
  // False: all its requests are in progress.
  bool ForgetOldest(Incarnation id, Sender* sender);
  void SetBytes(Incarnation id, Sender* sender, uint64_t bytes);

  uint64_t most_bytes_;
  size_t most_senders_;
  std::map<Incarnation, Sender> senders_;
  std::set<std::pair<uint64_t, Incarnation>> holders_;  // by bytes, of those that have some
  std::map<uint64_t, Incarnation> turns_;               // the senders, idlest first
  uint64_t next_turn_ = 1;
  uint64_t bytes_ = 0;
};

}  // namespace dslide
