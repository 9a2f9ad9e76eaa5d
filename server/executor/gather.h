// Adds up the executors' partial replies to one request into the server's reply.
#pragma once

#include <vector>

#include "common/wire/messages.h"

namespace dslide {

// `parts` are in executor order and at least one; if any of them is an ErrorReply, that is the
// reply.
Body GatherReplies(const Body& request, std::vector<Body> parts);

}  // namespace dslide
