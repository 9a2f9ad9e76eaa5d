// Shows the events of a scheduler to a person: lines of standard output, and the log. Used by one
// thread.
#pragma once

#include "common/log/event.h"

namespace dslide {

class Terminal {
 public:
  Terminal();

  // Whether standard output is a terminal, for a person and not for a program.
  bool interactive() const { return interactive_; }

  // A line of standard output. On a terminal the next line takes a transient one's place.
  void Print(const Event& event, bool transient = false);
  // Leaves an empty line in place of a transient one.
  void EndTransient();

  // Lines of the log.
  void Log(const Event& event);
  void Warn(const Event& event);
  void Debug(const Event& event);
  // Of the log, and of standard output unless both are one file.
  void Announce(const Event& event);

 private:
  void ClearTransient();
  void MakeWayForLog();

  bool interactive_;
  bool log_is_output_;  // the log and standard output are one file
  bool transient_shown_ = false;
};

}  // namespace dslide
