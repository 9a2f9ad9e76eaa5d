#include "tools/dslide/commands/command_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/app/endings.h"
#include "common/app/executable.h"
#include "common/base/nearest.h"

namespace dslide {
namespace {

void PrintUsage(std::FILE* to, const std::string& program, std::span<const Command> commands) {
  size_t width = 0;
  for (const Command& command : commands) {
    if (command.help != nullptr) width = std::max(width, std::strlen(command.name) + 2);
  }
  fmt::print(to, "usage: {} COMMAND [options]\n\n", program);
  for (const Command& command : commands) {
    if (command.help == nullptr) continue;
    fmt::print(to, "  {:<{}}{}\n", command.name, width, command.help);
  }
  fmt::print(to, "\n{} COMMAND --help lists a command's options.\n", program);
  if (to == stdout && program.find(' ') == std::string::npos) fmt::print(to, "\n{}", EndingsHelp());
}

}  // namespace

int RunOldName(const std::string& old_name, const std::string& name, int (*run)(int, char**),
               int argc, char** argv) {
  fmt::print(stderr, "{}: is {} now; the old name works in this release\n", old_name, name);
  return run(argc, argv);
}

int RunCommand(const std::string& program, std::span<const Command> commands, int argc,
               char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    PrintUsage(stdout, program, commands);
    return 0;
  }
  if (name == "--version") {
    PrintVersion(program);
    return 0;
  }
  std::vector<std::string> known;
  for (const Command& command : commands) {
    if (name == command.name) return command.run(argc - 1, argv + 1);
    if (command.help != nullptr) known.emplace_back(command.name);
  }
  if (name.empty()) {
    PrintUsage(stderr, program, commands);
    return 2;
  }
  const std::string* nearest = Nearest(name, known);
  fmt::print(
      stderr, "{}: unknown command {}; {}\n", program, Printable(name),
      nearest != nullptr ? "did you mean " + *nearest + "?" : program + " --help lists them");
  return 2;
}

}  // namespace dslide
