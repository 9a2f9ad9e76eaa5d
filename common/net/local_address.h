// The addresses of this machine, and which of them a peer sees.
#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// The address (IPv6 in brackets) that this machine's messages to `peer`, tcp://HOST:PORT, come
// from, by its routes; nothing is sent. Uses the resolver. Errors (kTryLater): the host has no
// address now, or there is no route to it.
Result<std::string> LocalHostTowards(const std::string& peer);

// The addresses of this machine's interfaces that are up, IPv4 first; IPv6 in brackets.
struct OwnAddress {
  std::string interface;  // "eth0"
  std::string host;
};
std::vector<OwnAddress> OwnAddresses();

// A host by which others may reach this machine: its first address that is not loopback's, else its
// name.
std::string OwnHost();

}  // namespace dslide
