// The socket at which an HTTP server listens.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "common/base/address.h"
#include "common/base/error.h"

namespace dslide {

Error CannotListen(const char* reason);

// A listening socket at the first of the host's addresses where listening is possible.
Result<int> Listen(const TcpAddress& address);

// Where a socket listens, and the port of that.
sockaddr_storage BoundAddressOf(int listener);
int PortOf(const sockaddr_storage& bound);

// Sends a request to the server that listens there, a wildcard being this machine, and waits for
// the first byte of the response. False: it did not come in time.
bool AskOnce(const sockaddr_storage& bound, std::string_view request, int limit_ms);

// The IP address, without the port; "": it is none.
std::string HostOf(const sockaddr* address);

}  // namespace dslide
