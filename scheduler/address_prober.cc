#include "scheduler/address_prober.h"

#include <utility>

#include "common/log/events.h"
#include "common/log/log.h"

namespace dslide {

void AddressProber::Send(Incarnation server, const std::string& address,
                         const std::optional<CurvePeer>& keys, Bytes request) {
  auto found = sockets_.find(server);
  if (found == sockets_.end()) {
    Result<DealerSocket> socket = DealerSocket::Connect(context_, address, keys);
    if (!socket.ok()) return LogWarning({event::kPeerUnreachable, socket.error().message});
    found = sockets_.emplace(server, std::move(*socket)).first;
    changes_++;
  }
  (void)found->second.TakeFailure();             // dials again
  (void)found->second.Send(std::move(request));  // the next one is due in a second
}

std::vector<std::pair<Incarnation, Incarnation>> AddressProber::Receive() {
  constexpr size_t kLongest = 64 << 10;  // of any answer to a probe
  std::vector<std::pair<Incarnation, Incarnation>> answers;
  for (auto& [server, socket] : sockets_) {
    const auto bytes = socket.Receive();
    if (!bytes) continue;
    Incarnation who;
    if (bytes->size() <= kLongest) {
      const Result<Message> message = Decode(*bytes);
      if (message.ok()) who = message->envelope.incarnation;
    }
    answers.emplace_back(server, who);
  }
  return answers;
}

void AddressProber::Keep(const std::function<bool(Incarnation)>& awaited) {
  changes_ += std::erase_if(sockets_, [&](const auto& entry) { return !awaited(entry.first); });
}

void AddressProber::AddTo(Poller* poller) {
  for (auto& [server, socket] : sockets_) poller->Add(socket);
}

}  // namespace dslide
