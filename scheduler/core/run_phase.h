// The phases of a run and of its cluster.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scheduler/base/transition.h"

namespace dslide {

// As shown by the status: ClusterPhase with kReady divided by the stage.
enum class RunPhase {
  kGathering,
  kLoading,
  kTraining,  // also between two stages
  kEvaluating,
  kFinished,
};

// Whether the slots have servers. The stages of kReady are those of PassStage.
enum class ClusterPhase : uint8_t {
  kGathering,  // assignments wait for servers (cluster.servers of them before the first slot map)
  kLoading,    // a slot map is published; servers initialise or restore their slots
  kReady,      // every slot has a server that is ready
  kFinished,   // Shutdown is sent
};

enum class ClusterEvent : uint8_t {
  kGenerationBegins,
  kServersReady,
  kServersBack,
  kServersLost,
  kRunEnds,
};

inline constexpr Transition<ClusterPhase, ClusterEvent> kClusterTransitions[] = {
    {ClusterPhase::kGathering, ClusterEvent::kGenerationBegins, ClusterPhase::kLoading},
    {ClusterPhase::kGathering, ClusterEvent::kServersBack, ClusterPhase::kReady},
    {ClusterPhase::kGathering, ClusterEvent::kRunEnds, ClusterPhase::kFinished},
    {ClusterPhase::kLoading, ClusterEvent::kServersReady, ClusterPhase::kReady},
    {ClusterPhase::kLoading, ClusterEvent::kServersLost, ClusterPhase::kGathering},
    {ClusterPhase::kLoading, ClusterEvent::kRunEnds, ClusterPhase::kFinished},
    {ClusterPhase::kReady, ClusterEvent::kServersLost, ClusterPhase::kGathering},
    {ClusterPhase::kReady, ClusterEvent::kRunEnds, ClusterPhase::kFinished},
    {ClusterPhase::kFinished, ClusterEvent::kRunEnds, ClusterPhase::kFinished},
};

inline const char* NameOf(ClusterPhase phase) {
  constexpr const char* kTexts[] = {"gathering", "loading", "ready", "finished"};
  return kTexts[static_cast<size_t>(phase)];
}

inline const char* TextOf(ClusterEvent event) {
  constexpr const char* kTexts[] = {
      "every slot of a new generation has a server", "every server has its slots",
      "every server of the slot map is ready again",
      "a server of the slot map is lost, or all are rolled back", "the run ends"};
  return kTexts[static_cast<size_t>(event)];
}

}  // namespace dslide
