#include "server/core/reply_cache.h"

#include "common/base/check.h"

namespace dslide {

ReplyCache::Seen ReplyCache::Begin(Incarnation sender, uint64_t sequence) {
  Sender& from = senders_[sender];
  const auto found = from.replies.find(sequence);
  if (found != from.replies.end()) {
    return found->second == nullptr ? Seen::kInProgress : Seen::kAnswered;
  }
  if (sequence <= from.forgotten) return Seen::kForgotten;
  from.replies.emplace(sequence, nullptr);
  while (from.replies.size() > kKept && from.replies.begin()->second != nullptr) {
    from.forgotten = from.replies.begin()->first;
    bytes_ -= from.replies.begin()->second->size();
    from.replies.erase(from.replies.begin());
  }
  return Seen::kNew;
}

void ReplyCache::Finish(Incarnation sender, uint64_t sequence, std::shared_ptr<const Bytes> reply) {
  const auto from = senders_.find(sender);
  if (from == senders_.end()) return;  // forgotten meanwhile
  const auto found = from->second.replies.find(sequence);
  if (found == from->second.replies.end()) return;
  if (found->second != nullptr) bytes_ -= found->second->size();
  bytes_ += reply->size();
  found->second = std::move(reply);
}

void ReplyCache::Forget(Incarnation sender) {
  const auto from = senders_.find(sender);
  if (from == senders_.end()) return;
  for (const auto& [sequence, reply] : from->second.replies) {
    if (reply != nullptr) bytes_ -= reply->size();
  }
  senders_.erase(from);
}

std::vector<Incarnation> ReplyCache::Senders() const {
  std::vector<Incarnation> senders;
  for (const auto& [incarnation, kept] : senders_) senders.push_back(incarnation);
  return senders;
}

const std::shared_ptr<const Bytes>& ReplyCache::Reply(Incarnation sender, uint64_t sequence) const {
  const std::shared_ptr<const Bytes>& reply = senders_.at(sender).replies.at(sequence);
  DSLIDE_CHECK(reply != nullptr);
  return reply;
}

}  // namespace dslide
