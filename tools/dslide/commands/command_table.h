// Choosing one of several commands by the first argument, with help and a hint for a typo.
#pragma once

#include <span>
#include <string>

namespace dslide {

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);
  const char* help;  // nullptr: an old name, which --help leaves out
};

// Runs `run` for a command that has another name now, after a notice that says it, in full:
// "dslide run drain". The old names go with the next release.
int RunOldName(const std::string& old_name, const std::string& name, int (*run)(int, char**),
               int argc, char** argv);

// Runs the command that argv[1] names, with the arguments from there on. `program`: the name before
// the command, e.g. "dslide checkpoint". The exit code is the command's; 2 for an unknown one.
int RunCommand(const std::string& program, std::span<const Command> commands, int argc,
               char** argv);

}  // namespace dslide
