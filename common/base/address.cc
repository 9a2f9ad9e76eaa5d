#include "common/base/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

#include "common/base/nearest.h"

namespace dslide {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kIpc = "ipc://";
constexpr std::string_view kAny = "*";  // host or port
constexpr std::string_view kRemedy = "use tcp://HOST:PORT";
constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

// ZeroMQ takes ports modulo 65536 and would silently listen at another port.
std::optional<uint16_t> PortNumber(std::string_view port) {
  uint16_t number = 0;
  const char* end = port.data() + port.size();
  const auto [last, error] = std::from_chars(port.data(), end, number);
  if (error != std::errc() || last != end) return std::nullopt;
  return number;
}

bool IsIpc(std::string_view address) {
  return address.starts_with(kIpc) && address.size() > kIpc.size() &&
         address.size() <= kIpc.size() + kMaxPath;
}

bool IsIpv6Literal(const std::string& host) {
  if (!host.starts_with('[') || !host.ends_with(']')) return false;
  const std::string inside = host.substr(1, host.size() - 2);
  in6_addr literal;  // a zone ("%eth0") may follow the address
  return inet_pton(AF_INET6, inside.substr(0, inside.find('%')).c_str(), &literal) == 1;
}

// A host name by its characters, or an IPv4 address.
bool IsHostName(const std::string& host) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  };
  return std::isalnum(static_cast<unsigned char>(host[0])) != 0 &&
         std::all_of(host.begin(), host.end(), allowed);
}

bool IsWildcard(const std::string& host) {
  return host == kAny || host == "0.0.0.0" || host == "[::]";
}

// The error for text that is neither ipc:// nor tcp://HOST:PORT. Users often forget the scheme.
std::string NotAnAddress(std::string_view address) {
  const std::string whole = fmt::format("{}{}", kTcp, address);
  if (address.find("://") == std::string_view::npos && ParseTcp(whole)) {
    return fmt::format("not an address; did you mean {}?", Printable(whole));
  }
  return fmt::format("not an address; {}", kRemedy);
}

std::string WhyNotReachable(std::string_view address, bool any_port) {
  if (IsIpc(address)) return "";
  const std::optional<TcpAddress> tcp = ParseTcp(address);
  if (!tcp) return NotAnAddress(address);
  if (IsWildcard(tcp->host)) {
    return fmt::format("{} is every address of its machine; {} with the one that others can reach",
                       tcp->host, kRemedy);
  }
  if (!IsHostName(tcp->host) && !IsIpv6Literal(tcp->host)) {
    return fmt::format("{} is neither a host name nor an IP address; {}, with [] around IPv6",
                       Printable(tcp->host), kRemedy);
  }
  if (any_port && tcp->port == kAny) return "";
  if (PortNumber(tcp->port).value_or(0) > 0) return "";
  return fmt::format("port {} is not in 1 to 65535; {}", Printable(tcp->port), kRemedy);
}

}  // namespace

std::optional<TcpAddress> ParseTcp(std::string_view address) {
  if (!address.starts_with(kTcp)) return std::nullopt;
  address.remove_prefix(kTcp.size());
  const size_t colon = address.rfind(':');  // the last one: an IPv6 host has colons too
  if (colon == 0 || colon == std::string_view::npos || colon + 1 == address.size()) {
    return std::nullopt;
  }
  // ZeroMQ's "source;destination" is not used here and would hide the destination.
  if (address.find(';') != std::string_view::npos) return std::nullopt;
  return TcpAddress{std::string(address.substr(0, colon)), std::string(address.substr(colon + 1))};
}

std::string WhyNotListenable(std::string_view address) {
  if (IsIpc(address)) return "";
  const std::optional<TcpAddress> tcp = ParseTcp(address);
  if (!tcp) return NotAnAddress(address);
  if (tcp->port == kAny || PortNumber(tcp->port)) return "";
  return fmt::format("port {} is not in 0 to 65535; {}", Printable(tcp->port), kRemedy);
}

std::string WhyNotDialable(std::string_view address) { return WhyNotReachable(address, false); }

std::string WhyNotAdvertisable(std::string_view address) { return WhyNotReachable(address, true); }

bool IsIpv4Literal(const std::string& host) {
  in_addr literal;
  return inet_pton(AF_INET, host.c_str(), &literal) == 1;
}

bool IsLoopback(std::string_view address) {
  if (address.starts_with(kIpc) || address.starts_with("inproc://")) return true;
  const std::optional<TcpAddress> tcp = ParseTcp(address);
  if (!tcp) return false;
  if (tcp->host == "localhost" || tcp->host == "[::1]") return true;
  // Only a literal: "127.example.org" is a name that may lead anywhere.
  return tcp->host.starts_with("127.") && IsIpv4Literal(tcp->host);
}

}  // namespace dslide
