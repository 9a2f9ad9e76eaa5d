// What audits need to know of the run, and what the run learns from them (scheduler/pass/audits.h).
#pragma once

#include <string>

#include "scheduler/core/run_state.h"
#include "scheduler/pass/audits.h"

namespace dslide {

// Tells the audits of the pass who takes part. Workers that were waited for in vain too often are
// not asked any more. The cost is of all members.
void FollowAudits(RunState* run);
// The same if members, the plan or the pass are others than the audits know.
void FollowAuditsIfChanged(RunState* run);

// Counts how an audit has ended, and says what people should know. True: others than before may be
// asked.
bool NoteAudit(const Audits::Outcome& outcome, RunState* run);

// "batch 0.3.1": of epoch 0, unit 3.
std::string NameOf(const BatchId& batch);

}  // namespace dslide
