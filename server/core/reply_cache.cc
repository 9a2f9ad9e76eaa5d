#include "server/core/reply_cache.h"

#include <algorithm>

#include "common/base/check.h"

namespace dslide {

ReplyCache::Seen ReplyCache::Begin(Incarnation id, uint64_t sequence, int64_t now_ms) {
  if (!senders_.contains(id) && senders_.size() >= most_senders_ && !MakeRoomForSender()) {
    return Seen::kTooMany;
  }
  Sender& sender = senders_[id];
  turns_.erase(sender.turn);
  sender.turn = next_turn_++;
  turns_.emplace(sender.turn, id);
  sender.heard_ms = now_ms;
  const auto found = sender.replies.find(sequence);
  if (found != sender.replies.end()) {
    return found->second == nullptr ? Seen::kInProgress : Seen::kAnswered;
  }
  if (sequence <= sender.forgotten) return Seen::kForgotten;
  if (sender.in_progress >= kKept) return Seen::kTooMany;
  sender.replies.emplace(sequence, nullptr);
  ++sender.in_progress;
  while (sender.replies.size() > kKept && sender.replies.begin()->second != nullptr) {
    (void)ForgetOldest(id, &sender);
  }
  return Seen::kNew;
}

// Only a sender without requests in progress is forgotten: their results are on their way.
bool ReplyCache::MakeRoomForSender() {
  for (const uint64_t answered_below : {kStranger, ~uint64_t{0}}) {
    const auto idle = std::ranges::find_if(turns_, [&](const auto& turn) {
      const Sender& sender = senders_.at(turn.second);
      return sender.in_progress == 0 && sender.answered < answered_below;
    });
    if (idle == turns_.end()) continue;
    Forget(Incarnation(idle->second));
    return true;
  }
  return false;
}

bool ReplyCache::ForgetOldest(Incarnation id, Sender* sender) {
  const auto oldest = std::ranges::find_if(
      sender->replies, [](const auto& entry) { return entry.second != nullptr; });
  if (oldest == sender->replies.end()) return false;
  sender->forgotten = std::max(sender->forgotten, oldest->first);
  SetBytes(id, sender, sender->bytes - oldest->second->size());
  sender->replies.erase(oldest);
  return true;
}

void ReplyCache::SetBytes(Incarnation id, Sender* sender, uint64_t bytes) {
  if (sender->bytes > 0) holders_.erase({sender->bytes, id});
  bytes_ += bytes - sender->bytes;
  sender->bytes = bytes;
  if (bytes > 0) holders_.emplace(bytes, id);
}

void ReplyCache::Finish(Incarnation id, uint64_t sequence, std::shared_ptr<const Bytes> reply,
                        int64_t now_ms) {
  const auto from = senders_.find(id);
  if (from == senders_.end()) return;  // forgotten meanwhile
  Sender& sender = from->second;
  sender.heard_ms = std::max(sender.heard_ms, now_ms);  // it could not say anything before
  const auto found = sender.replies.find(sequence);
  if (found == sender.replies.end()) return;
  const uint64_t before = found->second == nullptr ? 0 : found->second->size();
  if (found->second == nullptr) {
    --sender.in_progress;
    ++sender.answered;
  }
  SetBytes(id, &sender, sender.bytes - before + reply->size());
  found->second = std::move(reply);
  while (bytes_ > most_bytes_ && !holders_.empty()) {
    const Incarnation greatest = holders_.rbegin()->second;
    if (!ForgetOldest(greatest, &senders_.at(greatest))) break;
  }
}

void ReplyCache::Forget(Incarnation id) {
  const auto from = senders_.find(id);
  if (from == senders_.end()) return;
  SetBytes(id, &from->second, 0);
  turns_.erase(from->second.turn);
  senders_.erase(from);
}

std::vector<Incarnation> ReplyCache::Senders() const {
  std::vector<Incarnation> senders;
  for (const auto& [incarnation, kept] : senders_) senders.push_back(incarnation);
  return senders;
}

std::vector<Incarnation> ReplyCache::SilentSince(int64_t before_ms) const {
  std::vector<Incarnation> silent;
  for (const auto& [incarnation, kept] : senders_) {
    if (kept.in_progress == 0 && kept.heard_ms < before_ms) silent.push_back(incarnation);
  }
  return silent;
}

const std::shared_ptr<const Bytes>& ReplyCache::Reply(Incarnation sender, uint64_t sequence) const {
  const std::shared_ptr<const Bytes>& reply = senders_.at(sender).replies.at(sequence);
  DSLIDE_CHECK(reply != nullptr);
  return reply;
}

void ReplyCache::CheckInvariants() const {
  DSLIDE_CHECK(senders_.size() <= most_senders_ && turns_.size() == senders_.size());
  DSLIDE_CHECK(bytes_ <= most_bytes_ && holders_.empty() == (bytes_ == 0));
}

}  // namespace dslide
