// dslide run checkpoint: a running cluster writes a checkpoint now.
#include <fmt/core.h>

#include "common/app/executable.h"
#include "tools/dslide/checkpoint/checkpoint_commands.h"
#include "tools/dslide/cluster/observer.h"
#include "tools/dslide/cluster/run_access.h"

namespace dslide {
namespace {

constexpr int64_t kTimeoutMs = 600'000;

Status Checkpoint(const ParsedArguments& arguments) {
  const Result<SchedulerAccess> scheduler = RunAccess(arguments, "operator", true);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  Result<Observer> observer = Observer::Join(*scheduler, "dslide-checkpoint");
  DSLIDE_RETURN_IF_ERROR(observer);
  const Result<Body> reply = observer->Ask(CheckpointNow{}, kTimeoutMs);
  DSLIDE_RETURN_IF_ERROR(reply);
  const auto* done = std::get_if<CheckpointDone>(&*reply);
  if (done == nullptr) return Failed("the scheduler does not say where the checkpoint is");
  if (!done->error.empty()) return Failed(done->error);
  fmt::print("{}\n", done->shard);
  return {};
}

}  // namespace

int CheckpointNowCommand(int argc, char** argv) {
  CommandLine line("dslide run checkpoint RUN | --scheduler ADDRESS",
                   "Writes a checkpoint of a running cluster, and prints its directory.");
  DeclareRunOptions(&line, true);
  return RunExecutable("dslide run checkpoint", line, argc, argv, Checkpoint);
}

}  // namespace dslide
