// Tables of the transitions of a state machine.
//
// scheduler/README.md shows the tables (tests/scheduler/core/machines_test.cc).
#pragma once

#include <string>

#include "common/base/check.h"

namespace dslide {

template <typename State, typename Event>
struct Transition {
  State from;
  Event event;
  State to;
};

// The state after `event`. Aborts if the table has no row for it.
template <typename State, typename Event, unsigned rows>
State Next(const Transition<State, Event> (&table)[rows], State state, Event event) {
  for (const Transition<State, Event>& row : table) {
    if (row.from == state && row.event == event) return row.to;
  }
  const std::string missing =
      std::string("no transition from \"") + NameOf(state) + "\" when " + TextOf(event);
  CheckFailed(missing.c_str(), __FILE__, __LINE__);
}

}  // namespace dslide
