#include "common/http/http_listener.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/check.h"

namespace dslide {
namespace {

constexpr int kBacklog = 512;

}  // namespace

Error CannotListen(const char* reason) {
  return BadInput(fmt::format("cannot listen there: {}", reason));
}

Result<int> Listen(const TcpAddress& address) {
  std::string host = address.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host == "*" ? nullptr : host.c_str(),
                               address.port == "*" ? "0" : address.port.c_str(), &hints, &found);
  if (code != 0) return CannotListen(gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  int error = EINVAL;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) {
      // A machine without IPv6 has no such socket. Why another address failed says more.
      if (error == EINVAL) error = errno;
      continue;
    }
    const int yes = 1;
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(listener, at->ai_addr, at->ai_addrlen) == 0 && listen(listener, kBacklog) == 0) {
      return listener;
    }
    error = errno;
    close(listener);
  }
  return CannotListen(std::strerror(error));
}

sockaddr_storage BoundAddressOf(int listener) {
  sockaddr_storage bound = {};
  socklen_t length = sizeof bound;
  DSLIDE_CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &length) == 0);
  return bound;
}

int PortOf(const sockaddr_storage& bound) {
  return ntohs(bound.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

bool AskOnce(const sockaddr_storage& bound, std::string_view request, int limit_ms) {
  const int client = socket(bound.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (client < 0) return false;
  const timeval limit = {limit_ms / 1000, limit_ms % 1000 * 1000};
  const socklen_t length = bound.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  char byte = 0;
  const bool answered = setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
                        setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
                        connect(client, reinterpret_cast<const sockaddr*>(&bound), length) == 0 &&
                        send(client, request.data(), request.size(), MSG_NOSIGNAL) ==
                            static_cast<ssize_t>(request.size()) &&
                        recv(client, &byte, 1, 0) == 1;
  close(client);
  return answered;
}

std::string HostOf(const sockaddr* address) {
  char host[NI_MAXHOST];
  const socklen_t length =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int code = getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return code == 0 ? host : "";
}

}  // namespace dslide
