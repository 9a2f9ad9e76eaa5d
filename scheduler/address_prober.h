// Sends requests to the addresses that servers advertise, and hears who answers. Owned by the
// scheduler's thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/net/socket.h"
#include "common/wire/messages.h"

namespace dslide {

class AddressProber {
 public:
  // Sends `request` to the address of `server`, by the socket of its first one, which is encrypted
  // if there are keys. An address that cannot be dialled is logged.
  void Send(Incarnation server, const std::string& address, const std::optional<CurvePeer>& keys,
            Bytes request);
  // Answers, at most one of each socket: which server was probed, and the incarnation of who
  // answered, 0 if what came was no message.
  std::vector<std::pair<Incarnation, Incarnation>> Receive();
  // Closes the sockets to those that are not awaited any more.
  void Keep(const std::function<bool(Incarnation)>& awaited);

  void AddTo(Poller* poller);
  // Counts up when a socket came or went: AddTo() is due.
  uint64_t changes() const { return changes_; }

 private:
  // Its own: a name that resolves slowly must hold up no other socket.
  NetContext context_;
  std::map<Incarnation, DealerSocket> sockets_;
  uint64_t changes_ = 0;
};

}  // namespace dslide
