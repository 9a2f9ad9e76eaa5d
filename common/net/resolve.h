// Which IP addresses the host of an address has. All look-ups of hosts to dial are made here.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// Of a host, with the port of the address it was looked up for.
struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
  int family() const { return bytes.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

// The addresses of the host of tcp://HOST:PORT, in the order to try them; at least one. Takes as
// long as the resolver. Errors name the host and the resolver's reason: kBadInput: no address, or
// there is no such host; kTryLater: no resolver answered.
Result<std::vector<SocketAddress>> Resolve(const std::string& address);

// Checks that this machine can resolve the host of a tcp:// address now: a socket would retry an
// unknown host forever without an error. Errors as Resolve(). Other addresses are not checked.
Status CheckResolves(const std::string& address);
// For a process that waits for that host: logs a warning if it does not resolve now.
void WarnIfUnresolved(const std::string& address);

}  // namespace dslide
