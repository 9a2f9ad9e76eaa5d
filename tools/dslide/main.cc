// dslide: the user's command. `dslide COMMAND --help` tells the rest.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "common/config/nearest.h"
#include "tools/dslide/commands.h"

namespace {

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);
  const char* help;
};

constexpr Command kCommands[] = {
    {"train", dslide::TrainCommand, "start a cluster on this machine, train, follow it"},
    {"evaluate", dslide::EvaluateCommand, "measure a checkpoint on a test file"},
    {"predict", dslide::PredictCommand, "write the best labels of each sample"},
    {"checkpoint", dslide::CheckpointCommand, "list, inspect, verify or prune checkpoints, or write one now"},
    {"ledger", dslide::LedgerCommand, "recount whether every sample counted exactly once"},
    {"bench", dslide::BenchCommand, "measure the engine's speed on this machine"},
};

void PrintUsage(std::FILE* to) {
  fmt::print(to, "usage: dslide COMMAND [options]\n\n");
  for (const Command& command : kCommands)
    fmt::print(to, "  {:<12}{}\n", command.name, command.help);
  fmt::print(to, "\ndslide COMMAND --help lists a command's options.\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    PrintUsage(stdout);
    return 0;
  }
  std::vector<std::string> known;
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(argc - 1, argv + 1);
    known.emplace_back(command.name);
  }
  if (name.empty()) {
    PrintUsage(stderr);
  } else {
    const std::string* nearest = dslide::Nearest(name, known);
    fmt::print(stderr, "dslide: unknown command {}; {}\n", dslide::Printable(name),
               nearest != nullptr ? "did you mean " + *nearest + "?" : "dslide --help lists them");
  }
  return 2;
}
