// Makes requests idempotent: a repeated (incarnation, sequence) gets the stored reply, and what is
// still being worked on is not started again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/config/limits.h"
#include "common/wire/messages.h"

namespace dslide {

class ReplyCache {
 public:
  // Replies kept per sender. A repeated request finds its reply, because a sender has no more
  // requests open than that.
  static constexpr size_t kKept = 128;
  static_assert(kKept >= kMostOpenRequests);

  enum class Seen { kNew, kInProgress, kAnswered, kForgotten };

  // Notes a request. kForgotten: it is older than all that is kept, its reply is gone.
  Seen Begin(Incarnation sender, uint64_t sequence);

  // Stores the reply to a request in progress.
  void Finish(Incarnation sender, uint64_t sequence, std::shared_ptr<const Bytes> reply);

  // REQUIRES Begin() said kAnswered.
  const std::shared_ptr<const Bytes>& Reply(Incarnation sender, uint64_t sequence) const;

  bool Knows(Incarnation sender) const { return senders_.contains(sender); }
  void Forget(Incarnation sender);
  std::vector<Incarnation> Senders() const;  // those with replies kept
  uint64_t bytes() const { return bytes_; }  // of all replies that are kept

 private:
  struct Sender {
    uint64_t forgotten = 0;  // sequences up to here are not known any more
    std::map<uint64_t, std::shared_ptr<const Bytes>> replies;  // null: in progress
  };
  std::map<Incarnation, Sender> senders_;
  uint64_t bytes_ = 0;
};

}  // namespace dslide
