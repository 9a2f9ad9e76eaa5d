// Finds the state that a restarted run continues from.
#pragma once

#include "common/base/error.h"
#include "scheduler/base/run_inputs.h"

namespace dslide {

// Fills in `inputs->run` and the newest complete checkpoint of inputs->checkpoint_directory, after
// checking both against inputs->config (resolved) and inputs->train. A ledger alone is enough while
// servers still hold the trained state. Errors (kBadInput) name what cannot change. `began`: there
// was a ledger; a ledger without entries is that of a run that died before it began.
Status FindWhatToResume(bool began, RunInputs* inputs);

}  // namespace dslide
