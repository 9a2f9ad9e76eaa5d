// dslide: the user's command. `dslide COMMAND --help` explains a command.
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/vectors/vector_commands.h"

namespace {

constexpr dslide::Command kCommands[] = {
    {"quickstart", dslide::QuickstartCommand,
     "train, evaluate and predict with D-SLIDE's own data"},
    {"estimate", dslide::EstimateCommand,
     "estimate memory, bytes, speed and hours of a run on given machines"},
    {"train", dslide::TrainCommand, "start a cluster on this machine and train"},
    {"tune", dslide::TuneCommand, "find good settings in a given time"},
    {"evaluate", dslide::EvaluateCommand, "measure a checkpoint on a test file"},
    {"predict", dslide::PredictCommand, "write the best labels of each sample"},
    {"export", dslide::ExportCommand, "write a trained model as one file"},
    {"neighbours", dslide::NeighboursCommand, "find similar words or items, by their vectors"},
    {"serve", dslide::ServeCommand, "answer prediction requests over HTTP"},
    {"data", dslide::DataCommand, "look at data files, convert, split or shuffle them"},
    {"status", dslide::StatusCommand,
     "show the servers, workers and events of a running cluster, or this machine's workers"},
    {"run", dslide::RunsCommand,
     "start, stop, list and tidy up runs; drain a server, write a checkpoint"},
    {"report", dslide::ReportCommand, "write an HTML page of one run, or of several compared"},
    {"checkpoint", dslide::CheckpointCommand, "list, inspect, verify or prune checkpoints"},
    {"doctor", dslide::DoctorCommand, "find out what keeps a machine from training, or from speed"},
    {"key", dslide::KeyCommand, "say who may join an encrypted run"},
    {"ledger", dslide::LedgerCommand, "check that every sample counted exactly once"},
    {"bench", dslide::BenchCommand, "measure the training speed of this machine"},
    {"events", dslide::OldEventsCommand, nullptr},
    {"drain", dslide::OldDrainCommand, nullptr},
    {"keygen", dslide::OldKeygenCommand, nullptr},
    {"worker", dslide::OldWorkerCommand, nullptr},
    {"plan", dslide::OldPlanCommand, nullptr},
};

}  // namespace

int main(int argc, char** argv) { return dslide::RunCommand("dslide", kCommands, argc, argv); }
