// Addresses of processes as text: tcp://HOST:PORT, or ipc://PATH between processes of one machine.
// These functions use neither the network nor a resolver.
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

// The functions below return why an address cannot be used and the remedy; "" if it is valid.
//
// An address to listen at: tcp://HOST:PORT, where HOST * means every address of the machine and
// PORT * any free port; or ipc://PATH.
std::string WhyNotListenable(std::string_view address);
// An address that other processes dial: tcp://HOST:PORT with one host and a port from 1 to 65535;
// or ipc://PATH.
std::string WhyNotDialable(std::string_view address);
// An address to advertise: as for dialling, and PORT may be *, which means the bound port.
std::string WhyNotAdvertisable(std::string_view address);

// True for ipc://, inproc:// and tcp:// to 127.0.0.0/8, localhost or [::1].
bool IsLoopback(std::string_view address);

// Whether `host` is an IPv4 address.
bool IsIpv4Literal(const std::string& host);

}  // namespace dslide
