#include "common/net/local_address.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "common/base/address.h"

namespace dslide {
namespace {

// Connecting a UDP socket sends nothing: the kernel only looks up the route. nullopt: errno says
// why there is none.
std::optional<std::string> HostTowards(const addrinfo& to) {
  const int fd = socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  char host[INET6_ADDRSTRLEN] = "";
  const bool found = connect(fd, to.ai_addr, to.ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                     getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host, sizeof host,
                                 nullptr, 0, NI_NUMERICHOST) == 0;
  const int why = errno == 0 ? EADDRNOTAVAIL : errno;
  close(fd);
  errno = why;
  if (!found) return std::nullopt;
  return own.ss_family == AF_INET6 ? fmt::format("[{}]", host) : std::string(host);
}

}  // namespace

Result<std::string> LocalHostTowards(const std::string& peer) {
  const std::optional<TcpAddress> address = ParseTcp(peer);
  if (!address) return BadInput(fmt::format("{}: not an address; use tcp://HOST:PORT", peer));
  std::string name = address->host;
  if (name.starts_with('[')) name = name.substr(1, name.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int why = getaddrinfo(name.c_str(), address->port.c_str(), &hints, &found); why != 0) {
    return TryLater(fmt::format("{}: {}", name, gai_strerror(why)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    if (auto host = HostTowards(*to)) return *std::move(host);
  }
  return TryLater(fmt::format("{}: {}", name, std::strerror(errno)));
}

}  // namespace dslide
