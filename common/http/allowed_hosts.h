// The names by which a server may be asked, as the Host header of requests has them.
//
// A page on the network can make a browser dial loopback by a name of the page's own (DNS
// rebinding), and then reads the answers as those of its own site. Such a request has that name as
// its Host.
//
// Immutable; any thread may use it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dslide {

// Whether `host` may be a host's name or an address, an IPv6 address in brackets.
bool IsHost(std::string_view host);

class AllowedHosts {
 public:
  AllowedHosts() = default;  // every host

  // Hosts of loopback, and these names. REQUIRES that each of them IsHost().
  static AllowedHosts LoopbackAnd(const std::vector<std::string>& names = {});

  // `host`: a Host header, with a port or without.
  bool Allows(std::string_view host) const;

 private:
  bool any_ = true;
  std::vector<std::string> names_;  // in lower case
};

}  // namespace dslide
