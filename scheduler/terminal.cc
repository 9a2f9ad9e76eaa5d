#include "scheduler/terminal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "common/log/log.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

// Whether standard error (the log) and standard output are one file, as on a terminal.
bool LogIsOutput() {
  struct stat log, output;
  return fstat(STDERR_FILENO, &log) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
         log.st_dev == output.st_dev && log.st_ino == output.st_ino;
}

}  // namespace

Terminal::Terminal()
    : interactive_(isatty(STDOUT_FILENO) == 1 && !LogsJson()), log_is_output_(LogIsOutput()) {}

// A transient line is not wrapped, so that it is one line on a narrow terminal too.
void Terminal::Print(const Event& event, bool transient) {
  ClearTransient();
  if (!interactive_ || !transient) return PrintLine(event);
  // By fputs: a closed pipe or a full disk behind standard output must not end the run.
  std::fputs(("\x1b[?7l" + event.text + "\x1b[?7h").c_str(), stdout);
  std::fflush(stdout);
  transient_shown_ = true;
}

void Terminal::EndTransient() {
  if (transient_shown_) Print({event::kProgress, ""});
}

void Terminal::Log(const Event& event) {
  MakeWayForLog();
  LogInfo(event);
}

void Terminal::Warn(const Event& event) {
  MakeWayForLog();
  LogWarning(event);
}

void Terminal::Debug(const Event& event) {
  MakeWayForLog();
  LogDebug(event);
}

void Terminal::Announce(const Event& event) {
  Log(event);
  if (!log_is_output_ && !LogsJson()) Print(event);
}

void Terminal::ClearTransient() {
  if (!transient_shown_) return;
  std::fputs("\r\x1b[K", stdout);
  std::fflush(stdout);
  transient_shown_ = false;
}

void Terminal::MakeWayForLog() {
  if (log_is_output_) ClearTransient();
}

}  // namespace dslide
