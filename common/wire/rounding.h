// What floats become on the wire, for those who have them without a message.
#pragma once

#include "common/wire/messages.h"

namespace dslide {

// Makes the values what the receiver of a message in `precision` reads. False, and the values are
// unspecified, if it would refuse them: one is not finite or becomes so.
[[nodiscard]] bool RoundAsOnWire(WirePrecision precision, SparseRows* rows);

}  // namespace dslide
