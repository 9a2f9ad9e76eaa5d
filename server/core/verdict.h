// The verdict on a request: served, kept, ignored, answered again or refused.
#pragma once

#include <memory>
#include <variant>

#include "common/wire/messages.h"

namespace dslide {
namespace verdict {

struct Serve {};   // it goes to the executors, or waits for its step
struct Keep {};    // it waits for the slot map that it names
struct Ignore {};  // a repeated request whose reply the executors compute

struct Repeat {
  std::shared_ptr<const Bytes> reply;  // as it was sent before
};

// The answer is not kept.
struct Refuse {
  ErrorReply why;
  bool with_plan = false;  // the sender gets the slot map, too
};

}  // namespace verdict

using Verdict =
    std::variant<verdict::Serve, verdict::Keep, verdict::Ignore, verdict::Repeat, verdict::Refuse>;

}  // namespace dslide
