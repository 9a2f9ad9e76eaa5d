// What the holder of a key may say, and to whom (schema/SECURITY.md).
#pragma once

#include <string>

#include "common/wire/messages.h"

namespace dslide {

enum class Receiver { kScheduler, kServer };

// "" or why a receiver takes no such message from a holder of a key with this role.
std::string WhyForbidden(KeyRole role, const Body& body, Receiver receiver);

}  // namespace dslide
