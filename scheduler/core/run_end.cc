#include "scheduler/core/run_end.h"

#include <fmt/core.h>

#include <utility>

namespace dslide {

void Finish(RunState* run, Status outcome, const RunEnd& end, int64_t now_ms) {
  if (!run->Finished()) FinishAgain(run, std::move(outcome), end, now_ms);
}

void FinishAgain(RunState* run, Status outcome, const RunEnd& end, int64_t now_ms) {
  if (run->clock.running()) run->clock.Stop(run->roster().cpu_seconds(), now_ms);
  run->outcome = std::move(outcome);
  run->Enter(ClusterEvent::kRunEnds);
  run->pass().Stop();
  run->out.Record(LedgerStopped{run->outcome.ok()});
  const Shutdown shutdown{
      end.reason,
      run->outcome.ok() ? 0u : static_cast<uint32_t>(ExitCode(run->outcome.error().kind))};
  for (const Role role : {Role::kWorker, Role::kServer, Role::kObserver}) {
    run->out.SendToAll(run->roster(), role, shutdown);
  }
}

Error StoppedWithSaved(const RunState& run, const std::string& why) {
  if (run.checkpointer.newest()) {
    return {ErrorKind::kPreempted, fmt::format("stopped {}; the checkpoint is {}", why,
                                               run.checkpointer.newest_directory())};
  }
  const bool began = run.pass().counted().batches > 0;
  return TryLater(
      fmt::format("stopped {}; nothing was saved", began ? why : "before training began"));
}

}  // namespace dslide
