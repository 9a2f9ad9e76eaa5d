// dslide checkpoint COMMAND: shows, checks and prunes a run's checkpoints, or writes one now.
#include <string>

#include "tools/dslide/checkpoint/checkpoint_commands.h"
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"

namespace dslide {
namespace {

constexpr Command kCheckpointCommands[] = {
    {"now", CheckpointNowCommand, "write a checkpoint of a running cluster"},
    {"list", CheckpointListCommand, "list the checkpoints of a run, oldest first"},
    {"inspect", CheckpointInspectCommand, "print what a checkpoint holds"},
    {"verify", CheckpointVerifyCommand, "read a whole checkpoint and name all damage"},
    {"prune", CheckpointPruneCommand, "remove all but the newest checkpoints of a run"},
};

}  // namespace

int CheckpointCommand(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const bool help = name == "--help" || name == "-h";
  if (name.starts_with("--") && !help)
    return CheckpointNowCommand(argc, argv);  // --scheduler ADDRESS
  return RunCommand("dslide checkpoint", kCheckpointCommands, argc, argv);
}

}  // namespace dslide
