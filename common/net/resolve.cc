#include "common/net/resolve.h"

#include <fmt/core.h>
#include <netdb.h>

#include <cstring>
#include <memory>

#include "common/base/address.h"
#include "common/log/events.h"
#include "common/log/log.h"

namespace dslide {

Result<std::vector<SocketAddress>> Resolve(const std::string& address) {
  const std::optional<TcpAddress> tcp = ParseTcp(address);
  if (!tcp) return BadInput(fmt::format("{}: not an address; use tcp://HOST:PORT", address));
  std::string host = tcp->host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  // Whatever the resolver says: it may be ::1, where no peer listens (RFC 6761, section 6.3).
  if (host == "localhost") host = "127.0.0.1";
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      getaddrinfo(host.c_str(), tcp->port == "*" ? nullptr : tcp->port.c_str(), &hints, &found);
  if (code != 0) {
    return Error{code == EAI_AGAIN ? ErrorKind::kTryLater : ErrorKind::kBadInput,
                 fmt::format("cannot look up the host {} of {}: {}", tcp->host, address,
                             gai_strerror(code))};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& to = addresses.emplace_back();
    std::memcpy(&to.bytes, one->ai_addr, one->ai_addrlen);
    to.size = one->ai_addrlen;
  }
  return addresses;
}

Status CheckResolves(const std::string& address) {
  if (!ParseTcp(address)) return {};
  const auto found = Resolve(address);
  return found.ok() ? Status() : Status(found.error());
}

void WarnIfUnresolved(const std::string& address) {
  const Status resolves = CheckResolves(address);
  if (resolves.ok()) return;
  LogWarning({event::kAddressUnresolved,
              resolves.error().message + "; trying again until it is known",
              {{"address", address}}});
}

}  // namespace dslide
