#include "scheduler/address_prober.h"

#include <utility>

#include "common/base/log.h"

namespace dslide {

void AddressProber::Send(Incarnation server, const std::string& address,
                         const std::optional<CurvePeer>& keys, Bytes request) {
  auto found = sockets_.find(server);
  if (found == sockets_.end()) {
    Result<DealerSocket> socket = DealerSocket::Connect(context_, address, keys);
    if (!socket.ok()) return LogWarning(socket.error().message);
    found = sockets_.emplace(server, std::move(*socket)).first;
    changes_++;
  }
  (void)found->second.TakeFailure();             // dials again
  (void)found->second.Send(std::move(request));  // the next one is due in a second
}

std::optional<std::pair<Incarnation, Incarnation>> AddressProber::Receive() {
  for (auto& [server, socket] : sockets_) {
    const auto bytes = socket.Receive();
    if (!bytes) continue;
    const Result<Message> message = Decode(*bytes);
    return std::pair(server, message.ok() ? message->envelope.incarnation : Incarnation());
  }
  return std::nullopt;
}

void AddressProber::Keep(const std::function<bool(Incarnation)>& awaited) {
  changes_ += std::erase_if(sockets_, [&](const auto& entry) { return !awaited(entry.first); });
}

void AddressProber::AddTo(Poller* poller) {
  for (auto& [server, socket] : sockets_) poller->Add(socket);
}

}  // namespace dslide
