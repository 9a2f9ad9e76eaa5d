// The kinds of events that dslide train reports of the processes that it starts.
#pragma once

#include "common/log/event.h"

namespace dslide::event {

inline constexpr EventKind kClusterStarted = {"cluster.start",
                                              "the processes of a cluster, and how others join it"};
inline constexpr EventKind kClusterNote = {"cluster.note", "something was chosen for the cluster"};
inline constexpr EventKind kClusterStopping = {
    "cluster.stop", "all workers of this machine have ended, so the cluster stops"};
inline constexpr EventKind kClusterDone = {"cluster.done", "where the run's files are"};
inline constexpr EventKind kChildEnded = {"process.child.end",
                                          "a process ended; the others continue"};
inline constexpr EventKind kChildRestarted = {"process.child.restart",
                                              "a process ended and was started again"};

}  // namespace dslide::event
