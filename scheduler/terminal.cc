#include "scheduler/terminal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "common/base/log.h"

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
void Terminal::Print(const std::string& line, bool transient) {
  ClearTransient();
  if (!interactive_ || !transient) return PrintLine(line);
  // By fputs: a closed pipe or a full disk behind standard output must not end the run.
  std::fputs(("\x1b[?7l" + line + "\x1b[?7h").c_str(), stdout);
  std::fflush(stdout);
  transient_shown_ = true;
}

void Terminal::EndTransient() {
  if (transient_shown_) Print("");
}

void Terminal::Log(const std::string& line) {
  MakeWayForLog();
  LogInfo(line);
}

void Terminal::Warn(const std::string& line) {
  MakeWayForLog();
  LogWarning(line);
}

void Terminal::Debug(const std::string& line) {
  MakeWayForLog();
  LogDebug(line);
}

void Terminal::Announce(const std::string& line) {
  Log(line);
  if (!log_is_output_ && !LogsJson()) Print(line);
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
