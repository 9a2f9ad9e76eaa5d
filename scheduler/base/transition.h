// Machines as tables: which event leads from which state to which.
//
// scheduler/README.md shows the tables (tests/scheduler/core/machines_test.cc).
#pragma once

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
  DSLIDE_CHECK(!"the table has no such event in this state");
  return state;
}

}  // namespace dslide
