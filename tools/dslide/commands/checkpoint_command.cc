// dslide checkpoint COMMAND: shows, checks and prunes a run's checkpoints.
#include <string_view>

#include "tools/dslide/checkpoint/checkpoint_commands.h"
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"

namespace dslide {
namespace {

int OldNowCommand(int argc, char** argv) {
  return RunOldName("dslide checkpoint now", "dslide run checkpoint", CheckpointNowCommand, argc,
                    argv);
}

constexpr Command kCheckpointCommands[] = {
    {"list", CheckpointListCommand, "list the checkpoints of a run, oldest first"},
    {"inspect", CheckpointInspectCommand, "print what a checkpoint holds"},
    {"verify", CheckpointVerifyCommand, "read a whole checkpoint and name all damage"},
    {"prune", CheckpointPruneCommand, "remove all but the newest checkpoints of a run"},
    {"now", OldNowCommand, nullptr},
};

}  // namespace

int CheckpointCommand(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--scheduler" || name == "--key") return OldNowCommand(argc, argv);
  return RunCommand("dslide checkpoint", kCheckpointCommands, argc, argv);
}

}  // namespace dslide
