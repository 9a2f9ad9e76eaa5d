// Adds up the executors' partial replies to one request into the server's reply.
#pragma once

#include <vector>

#include "common/wire/messages.h"

namespace dslide {

// `parts`: in executor order, at least one. If one is an ErrorReply, it is the reply; of a SlotPull
// only if no executor has the slot's rows.
Body GatherReplies(const Body& request, std::vector<Body> parts);

}  // namespace dslide
