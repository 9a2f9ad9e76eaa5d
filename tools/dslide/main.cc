// dslide: the user's command. `dslide COMMAND --help` explains a command.
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/vectors/vector_commands.h"

namespace {

constexpr dslide::Command kCommands[] = {
    {"quickstart", dslide::QuickstartCommand,
     "train, evaluate and predict with D-SLIDE's own data"},
    {"plan", dslide::PlanCommand, "say what a run needs, and how fast it is on given machines"},
    {"train", dslide::TrainCommand, "start a cluster on this machine and train"},
    {"tune", dslide::TuneCommand, "find good settings in a given time"},
    {"evaluate", dslide::EvaluateCommand, "measure a checkpoint on a test file"},
    {"predict", dslide::PredictCommand, "write the best labels of each sample"},
    {"export", dslide::ExportCommand, "write a trained model as one file"},
    {"neighbours", dslide::NeighboursCommand, "find similar words or items, by their vectors"},
    {"serve", dslide::ServeCommand, "answer prediction requests over HTTP"},
    {"data", dslide::DataCommand, "look at data files, convert, split or shuffle them"},
    {"status", dslide::StatusCommand,
     "show the servers, workers and last decisions of a running cluster"},
    {"events", dslide::EventsCommand, "print what the scheduler of a running cluster decided"},
    {"run", dslide::RunsCommand, "list, stop and tidy up the runs of a directory"},
    {"report", dslide::ReportCommand, "write an HTML page of one run, or of several compared"},
    {"drain", dslide::DrainCommand,
     "move the slots of a server to the others, then stop that server"},
    {"checkpoint", dslide::CheckpointCommand,
     "list, inspect, verify or prune checkpoints, or write one now"},
    {"doctor", dslide::DoctorCommand, "find out what keeps a machine from training, or from speed"},
    {"key", dslide::KeyCommand, "say who may join an encrypted run"},
    {"worker", dslide::WorkerCommand, "show the lent workers on this machine"},
    {"keygen", dslide::KeygenCommand, "draw a key of one's own"},
    {"ledger", dslide::LedgerCommand, "check that every sample counted exactly once"},
    {"bench", dslide::BenchCommand, "measure the training speed of this machine"},
};

}  // namespace

int main(int argc, char** argv) { return dslide::RunCommand("dslide", kCommands, argc, argv); }
