// Addresses of processes as text: tcp://HOST:PORT, or ipc://PATH between processes of one machine.
// Nothing here asks the network or a resolver.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dslide {

struct TcpAddress {
  std::string host;  // name, IP address, [IPv6 address], interface or *
  std::string port;  // number or *
};
// The parts of tcp://HOST:PORT, neither empty; nullopt for anything else.
std::optional<TcpAddress> ParseTcp(std::string_view address);

// These say why an address is of no use for something, and how to mend it; "" if it is sound.
//
// To listen at: tcp://HOST:PORT, where * stands for every HOST and for any free PORT; or
// ipc://PATH.
std::string WhyNotListenable(std::string_view address);
// To be dialled by other processes: tcp://HOST:PORT with one host and a port from 1 to 65535; or
// ipc://PATH.
std::string WhyNotDialable(std::string_view address);
// To be advertised: the same, and PORT may be *, which stands for the one that is bound.
std::string WhyNotAdvertisable(std::string_view address);

// True for ipc://, inproc:// and tcp:// to 127.0.0.0/8, localhost or [::1].
bool IsLoopback(std::string_view address);

// Whether `host` is an IPv4 address.
bool IsIpv4Literal(const std::string& host);

}  // namespace dslide
