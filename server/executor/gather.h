// Adds up the executors' partial replies to one request into the server's reply.
#pragma once

#include <optional>
#include <vector>

#include "common/wire/messages.h"

namespace dslide {

// `parts` are in executor order and at least one; if any of them is an ErrorReply, that is the
// reply.
Body GatherReplies(const Body& request, std::vector<Body> parts);

// The loads in the executors' Heartbeats as the server's, ascending by slot; an executor has its
// busy seconds in `busy`.
LoadReport GatherLoads(const std::vector<Body>& parts, uint32_t interval_ms);

// The push that an ActiveQuery with `finish` goes on with, given its gathered statistics: a second
// round over the executors. Its reply gets the statistics as `active`. nullopt for all other
// requests, and for an error.
std::optional<GradientPush> SecondRound(const Body& request, const Body& reply);

}  // namespace dslide
