// The sub-commands of dslide checkpoint. Each is a main(): arguments in, exit code out.
#pragma once

namespace dslide {

int CheckpointNowCommand(int argc, char** argv);
int CheckpointListCommand(int argc, char** argv);
int CheckpointInspectCommand(int argc, char** argv);
int CheckpointVerifyCommand(int argc, char** argv);
int CheckpointPruneCommand(int argc, char** argv);

}  // namespace dslide
