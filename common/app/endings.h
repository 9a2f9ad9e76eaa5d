// How processes end: exit codes and signals. The help of all executables, the manual pages and the
// tables in tools/dslide/MANUAL.md are made from these two tables.
#pragma once

#include <span>
#include <string>

namespace dslide {

// An exit code of any of the executables.
struct ExitMeaning {
  int code;
  const char* what;
};
std::span<const ExitMeaning> ExitMeanings();

// What a signal does.
struct SignalMeaning {
  const char* signal;
  const char* what;
};
std::span<const SignalMeaning> SignalMeanings();

// Both as sections of a help: "exit codes:" and "signals:", a line each entry.
std::string EndingsHelp();

}  // namespace dslide
