#include "common/http/open_connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace dslide {

void OpenConnections::Add(const void* id, int socket, int64_t now_ms) {
  const MutexLock lock(mutex_);
  if (open_.size() >= limits_.connections) CloseLongestWaiting();
  // Without a free place the server would accept no client that waits in the kernel's queue.
  if (open_.size() + 2 >= 2 * limits_.connections) CloseOldestResponse();
  open_[id] = {.socket = socket, .since_ms = now_ms, .waits_since_ms = now_ms, .number = ++come_};
}

void OpenConnections::Remove(const void* id) {
  const MutexLock lock(mutex_);
  open_.erase(id);
}

void OpenConnections::OnHeaders(const void* id, int64_t now_ms) { Begin(id, Stage::kBody, now_ms); }

void OpenConnections::OnEnd(const void* id, int64_t now_ms) { Begin(id, Stage::kHeaders, now_ms); }

void OpenConnections::OnBody(const void* id, size_t bytes, int64_t now_ms) {
  const MutexLock lock(mutex_);
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  int64_t& since_ms = found->second.waits_since_ms;
  since_ms = std::min(now_ms, since_ms + static_cast<int64_t>(bytes) / kExpectedBytesPerMs);
}

void OpenConnections::OnComplete(const void* id) { Enter(id, Stage::kAnswer); }

void OpenConnections::OnResponse(const void* id) { Enter(id, Stage::kResponse); }

void OpenConnections::Enter(const void* id, Stage stage) {
  const MutexLock lock(mutex_);
  if (const auto found = open_.find(id); found != open_.end()) found->second.stage = stage;
}

void OpenConnections::Begin(const void* id, Stage stage, int64_t now_ms) {
  const MutexLock lock(mutex_);
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  Connection& one = found->second;
  one.stage = stage;
  one.since_ms = now_ms;
  one.served = one.served || stage == Stage::kHeaders;
  // A new connection waits for all of its first request.
  if (one.served) one.waits_since_ms = now_ms;
}

void OpenConnections::CloseLate(int64_t now_ms) {
  const MutexLock lock(mutex_);
  for (auto& [id, one] : open_) {
    const unsigned limit_s = one.stage == Stage::kHeaders ? limits_.headers_s : limits_.request_s;
    if (now_ms - one.since_ms > int64_t{1000} * limit_s) Close(&one);
  }
}

void OpenConnections::Close(const void* id) {
  const MutexLock lock(mutex_);
  if (const auto found = open_.find(id); found != open_.end()) Close(&found->second);
}

void OpenConnections::Close(Connection* one) {
  if (!std::exchange(one->closed, true)) (void)shutdown(one->socket, SHUT_RDWR);
}

void OpenConnections::CloseLongestWaiting() {
  Connection* longest = nullptr;
  for (auto& [id, one] : open_) {
    if (one.closed || (one.stage != Stage::kHeaders && one.stage != Stage::kBody)) continue;
    if (longest == nullptr || std::pair(one.waits_since_ms, one.number) <
                                  std::pair(longest->waits_since_ms, longest->number)) {
      longest = &one;
    }
  }
  if (longest != nullptr) Close(longest);
}

void OpenConnections::CloseOldestResponse() {
  Connection* oldest = nullptr;
  for (auto& [id, one] : open_) {
    if (one.closed || one.stage != Stage::kResponse) continue;
    if (oldest == nullptr || one.since_ms < oldest->since_ms) oldest = &one;
  }
  if (oldest != nullptr) Close(oldest);
}

}  // namespace dslide
