// Lies that several families use.
#pragma once

#include "tests/attacks/lying_worker.h"

namespace dslide {

// Each sample has the label of the next one. Both are of one server, which would refuse others.
Twist ExchangeLabels();

// A load report of 256 slots with numbers as large as they go.
LoadReport AbsurdLoad();

}  // namespace dslide
