// The phases of a run, as the status shows them.
#pragma once

namespace dslide {

enum class RunPhase {
  kGathering,   // the plan's seats, or before the first plan cluster.servers of them, wait for
                // servers
  kLoading,     // a plan was sent, servers initialise or restore their slots
  kTraining,    // units of the epoch are leased; checkpoints are written meanwhile
  kEvaluating,  // units of the evaluation are leased
  kFinished,    // Shutdown was sent
};

}  // namespace dslide
