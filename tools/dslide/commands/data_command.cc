// dslide data COMMAND: looks at data files, converts, splits and shuffles them.
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/data/data_commands.h"

namespace dslide {
namespace {

constexpr Command kDataCommands[] = {
    {"stats", DataStatsCommand, "print what a data file holds"},
    {"convert", DataConvertCommand, "write a data file in another format"},
    {"split", DataSplitCommand, "divide a data file into two, for training and test"},
    {"shuffle", DataShuffleCommand, "write a data file in random order"},
};

}  // namespace

int DataCommand(int argc, char** argv) {
  return RunCommand("dslide data", kDataCommands, argc, argv);
}

}  // namespace dslide
