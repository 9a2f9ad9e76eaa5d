#include "common/net/local_address.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <optional>

#include "common/base/address.h"
#include "common/net/resolve.h"

namespace dslide {
namespace {

// The number of an address, IPv6 in brackets; "" if it has none.
std::string HostOf(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return address->sa_family == AF_INET6 ? fmt::format("[{}]", host) : std::string(host);
}

// Connecting a UDP socket sends nothing: the kernel only looks up the route. nullopt: errno says
// why there is none.
std::optional<std::string> HostTowards(const SocketAddress& to) {
  const int fd = socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  std::string host;
  if (connect(fd, to.get(), to.size) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0) {
    host = HostOf(reinterpret_cast<sockaddr*>(&own), size);
  }
  const int why = errno == 0 ? EADDRNOTAVAIL : errno;
  close(fd);
  errno = why;
  if (host.empty()) return std::nullopt;
  return host;
}

}  // namespace

Result<std::string> LocalHostTowards(const std::string& peer) {
  const auto all = Resolve(peer);
  if (!all.ok() && !ParseTcp(peer)) return all.error();
  if (!all.ok()) return TryLater(all.error().message);  // the name may be known later
  for (const SocketAddress& to : *all) {
    if (auto host = HostTowards(to)) return *std::move(host);
  }
  return TryLater(fmt::format("{}: {}", peer, std::strerror(errno)));
}

std::vector<OwnAddress> OwnAddresses() {
  std::vector<OwnAddress> own;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return own;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(found, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    const auto size =
        static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family) continue;
      const std::string host = HostOf(one->ifa_addr, size);
      if (!host.empty() && (one->ifa_flags & IFF_UP) != 0) own.push_back({one->ifa_name, host});
    }
  }
  return own;
}

std::string OwnHost() {
  for (const OwnAddress& own : OwnAddresses()) {
    const bool linked = own.host.find('%') != std::string::npos;  // IPv6, of one link only
    if (!linked && !IsLoopback(fmt::format("tcp://{}:1", own.host))) return own.host;
  }
  char name[HOST_NAME_MAX + 1] = "";
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

}  // namespace dslide
