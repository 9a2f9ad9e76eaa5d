// Twists that several families use.
#pragma once

#include "tests/attacks/lying_worker.h"

namespace dslide {

// Each sample has the label of the next one. Both are of one server, which would refuse others.
Twist ExchangeLabels();

}  // namespace dslide
