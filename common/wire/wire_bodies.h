// The body of a message from its verified FlatBuffer.
#pragma once

#include <cstddef>

#include "common/wire/messages.h"
#include "protocol_generated.h"

namespace dslide {

// Errors name the message, the field and what is wrong with it. REQUIRES a body type that the
// schema has; `message_bytes` is the size of the whole buffer.
Result<Body> ReadBody(const wire::Message& message, size_t message_bytes);

}  // namespace dslide
