// Which address of this machine a peer sees.
#pragma once

#include <string>

#include "common/base/error.h"

namespace dslide {

// The address (IPv6 in brackets) that this machine's messages to `peer`, tcp://HOST:PORT, come
// from, by its routes; nothing is sent. Uses the resolver. Errors (kTryLater): the host has no
// address now, or there is no route to it.
Result<std::string> LocalHostTowards(const std::string& peer);

}  // namespace dslide
