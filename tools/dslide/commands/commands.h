// The sub-commands of dslide. Each is a main(): arguments in, exit code out.
#pragma once

namespace dslide {

int QuickstartCommand(int argc, char** argv);
int TrainCommand(int argc, char** argv);
int TuneCommand(int argc, char** argv);
int EvaluateCommand(int argc, char** argv);
int EstimateCommand(int argc, char** argv);
int PredictCommand(int argc, char** argv);
int ExportCommand(int argc, char** argv);
int ServeCommand(int argc, char** argv);
int DataCommand(int argc, char** argv);
int BenchCommand(int argc, char** argv);
int CheckpointCommand(int argc, char** argv);
int StatusCommand(int argc, char** argv);
int ReportCommand(int argc, char** argv);
int DoctorCommand(int argc, char** argv);
int KeyCommand(int argc, char** argv);
int RunsCommand(int argc, char** argv);
int LedgerCommand(int argc, char** argv);

// dslide run drain.
int DrainCommand(int argc, char** argv);

// Names that commands had before.
int OldEventsCommand(int argc, char** argv);
int OldDrainCommand(int argc, char** argv);
int OldKeygenCommand(int argc, char** argv);
int OldWorkerCommand(int argc, char** argv);
int OldPlanCommand(int argc, char** argv);

}  // namespace dslide
