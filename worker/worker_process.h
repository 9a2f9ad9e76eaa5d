// The worker process: one session with the scheduler, and on a lent machine one after another.
//
// A lent machine's worker leaves the cluster when its owner's policy pauses, closes its
// connections, and joins again afterwards. A volunteer besides stays when the scheduler does: it
// dials again, with random pauses that grow, until the scheduler says that the run is done.
#pragma once

#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/security/member_key.h"
#include "worker/lent_machine.h"

namespace dslide {

struct WorkerOptions {
  SchedulerAccess scheduler;
  std::string name;
  std::string data;        // the training file, if this machine has it; else empty
  bool volunteer = false;  // REQUIRES a lent machine
};

// `lent`: null if the machine is not lent.
Status RunWorker(const WorkerOptions& options, LentMachine* lent, StopSignals* signals);

}  // namespace dslide
