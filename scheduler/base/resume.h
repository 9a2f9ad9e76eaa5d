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

// The same errors as far as they show before any data is read: there is nothing to resume.
Status CheckSomethingToResume(bool began, const LedgerState& ledger,
                              const std::string& checkpoint_directory);

// The same errors of keys that cannot change, as far as they show before any data is read: for a
// run whose data depends on them. REQUIRES a resolved configuration.
Status CheckKeysToResume(const RunInputs& inputs);

// Whether a run has done all that `config` asks for, as the user gave it but with absolute paths:
// training and evaluation. Needs no data. False also where the configuration would be refused, or
// other files are named.
bool IsFinished(const LedgerState& ledger, Config config);

}  // namespace dslide
