// dslide checkpoint COMMAND: what there is of a run's checkpoints, and making one now.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "common/config/nearest.h"
#include "tools/dslide/checkpoint_commands.h"
#include "tools/dslide/commands.h"

namespace dslide {
namespace {

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);
  const char* help;
};

constexpr Command kCommands[] = {
    {"now", CheckpointNowCommand, "a running cluster writes a checkpoint now"},
    {"list", CheckpointListCommand, "the checkpoints of a run, oldest first"},
    {"inspect", CheckpointInspectCommand, "what a checkpoint holds"},
    {"verify", CheckpointVerifyCommand, "read a whole checkpoint and name all damage"},
    {"prune", CheckpointPruneCommand, "remove all but the newest checkpoints of a run"},
};

void PrintUsage(std::FILE* to) {
  fmt::print(to, "usage: dslide checkpoint COMMAND [options]\n\n");
  for (const Command& command : kCommands)
    fmt::print(to, "  {:<10}{}\n", command.name, command.help);
  fmt::print(to, "\ndslide checkpoint COMMAND --help lists a command's options.\n");
}

}  // namespace

int CheckpointCommand(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    PrintUsage(stdout);
    return 0;
  }
  if (name.starts_with("--")) return CheckpointNowCommand(argc, argv);  // --scheduler ADDRESS
  std::vector<std::string> known;
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(argc - 1, argv + 1);
    known.emplace_back(command.name);
  }
  if (name.empty()) {
    PrintUsage(stderr);
  } else {
    const std::string* nearest = Nearest(name, known);
    fmt::print(stderr, "dslide checkpoint: unknown command {}; {}\n", Printable(name),
               nearest != nullptr ? "did you mean " + *nearest + "?"
                                  : "dslide checkpoint --help lists them");
  }
  return 2;
}

}  // namespace dslide
