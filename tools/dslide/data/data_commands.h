// The sub-commands of dslide data. Each is a main(): arguments in, exit code out.
#pragma once

namespace dslide {

int DataStatsCommand(int argc, char** argv);
int DataConvertCommand(int argc, char** argv);
int DataSplitCommand(int argc, char** argv);
int DataShuffleCommand(int argc, char** argv);

}  // namespace dslide
