// How a life of the scheduler begins: by refusing what cannot be trained, and by finding what an
// earlier life has left.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/config/config.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/endpoint.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/rank/reranking.h"
#include "scheduler/run_data.h"
#include "scheduler/status/run_costs.h"

namespace dslide {

struct SchedulerOptions {
  Config config;
  std::string run_directory;
  bool resume = false;
  uint32_t server_memory_mb = 0;     // of each of the cluster.servers that join; 0: not known
  std::set<std::string> given = {};  // the keys of `config` that the user set
};

// In the run directory: the last checkpoint that checkpoint.hook succeeded with.
constexpr char kHookDoneName[] = "hook.done";

struct StartedRun {
  std::string directory;
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<Ledger> ledger;  // before the data: who has it owns the run directory
  std::unique_ptr<RunData> data;
  RunInputs inputs;                      // points to `data`
  std::unique_ptr<Reranking> reranking;  // null: labels are ranked by the model alone
  RunCosts earlier;
  Contributions contributions;  // of all entries of the ledger
  CheckpointConfig checkpoint;  // with its commands, which `inputs` lacks
  std::string for_hook;         // a checkpoint that checkpoint.hook has not had yet; "": none
};

// First come the checks that can fail at once, then the slow work, last everything that leaves
// files. What a new run had to keep before is removed if it is refused. Tells people what the run
// is. Null: the run is finished already, which was said. Errors name the key, file or directory,
// and the mend.
Result<std::unique_ptr<StartedRun>> StartRun(const SchedulerOptions& options, StopSignals* signals);

}  // namespace dslide
