// dslide: the user's command. `dslide COMMAND --help` tells the rest.
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"

namespace {

constexpr dslide::Command kCommands[] = {
    {"train", dslide::TrainCommand, "start a cluster on this machine, train, follow it"},
    {"evaluate", dslide::EvaluateCommand, "measure a checkpoint on a test file"},
    {"predict", dslide::PredictCommand, "write the best labels of each sample"},
    {"status", dslide::StatusCommand, "show a running cluster: servers, workers, what was decided"},
    {"drain", dslide::DrainCommand, "have a server hand its slots to the others and leave"},
    {"checkpoint", dslide::CheckpointCommand,
     "list, inspect, verify or prune checkpoints, or write one now"},
    {"ledger", dslide::LedgerCommand, "recount whether every sample counted exactly once"},
    {"bench", dslide::BenchCommand, "measure the engine's speed on this machine"},
};

}  // namespace

int main(int argc, char** argv) { return dslide::RunCommand("dslide", kCommands, argc, argv); }
