#include "common/app/endings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace dslide {
namespace {

constexpr ExitMeaning kExits[] = {
    {0, "done; a worker that was stopped, too"},
    {1, "failed: input or output, a peer, a resource; the run diverged; doctor found a problem"},
    {2, "usage, configuration or data that is to be corrected; a server too small for the run"},
    {75, "try again later: something that the process needs is not there, or not yet"},
    {85, "stopped on request; the state is saved, and the run can be continued"},
};

constexpr SignalMeaning kSignals[] = {
    {"SIGINT, SIGTERM",
     "stop in good order: train and scheduler write a checkpoint, a server hands its slots over, a "
     "worker gives its leases back; a second one, a second later or more, ends the process at "
     "once"},
    {"SIGHUP", "as SIGTERM; a lent worker with --config reads its owner's rules again"},
    {"SIGPIPE", "ignored: a pipe that closes does not end a run"},
};

}  // namespace

std::span<const ExitMeaning> ExitMeanings() { return kExits; }
std::span<const SignalMeaning> SignalMeanings() { return kSignals; }

std::string EndingsHelp() {
  size_t width = 0;
  for (const SignalMeaning& one : kSignals) width = std::max(width, std::strlen(one.signal));
  std::string text = "exit codes:\n";
  for (const ExitMeaning& one : kExits)
    text += fmt::format("  {:<{}}  {}\n", one.code, width, one.what);
  text += "\nsignals:\n";
  for (const SignalMeaning& one : kSignals) {
    text += fmt::format("  {:<{}}  {}\n", one.signal, width, one.what);
  }
  return text;
}

}  // namespace dslide
