// The stages of a pass and their transitions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scheduler/base/transition.h"

namespace dslide {

enum class PassStage : uint8_t {
  kNotBegun,    // servers load the slots of a generation's first slot map
  kBetween,     // nothing is leased
  kEpoch,       // batches of an epoch are leased
  kEvaluation,  // batches of an evaluation are leased
};

enum class PassEvent : uint8_t {
  kServersReady,
  kEpochBegins,
  kEvaluationBegins,
  kLieFound,
  kAllCount,
  kRunEnds,
};

inline constexpr Transition<PassStage, PassEvent> kPassTransitions[] = {
    {PassStage::kNotBegun, PassEvent::kServersReady, PassStage::kBetween},
    {PassStage::kBetween, PassEvent::kEpochBegins, PassStage::kEpoch},
    {PassStage::kBetween, PassEvent::kEvaluationBegins, PassStage::kEvaluation},
    {PassStage::kEpoch, PassEvent::kAllCount, PassStage::kBetween},
    {PassStage::kEpoch, PassEvent::kRunEnds, PassStage::kBetween},
    {PassStage::kEvaluation, PassEvent::kAllCount, PassStage::kBetween},
    {PassStage::kEvaluation, PassEvent::kLieFound, PassStage::kEvaluation},
    {PassStage::kEvaluation, PassEvent::kRunEnds, PassStage::kBetween},
};

inline const char* NameOf(PassStage stage) {
  constexpr const char* kTexts[] = {"not begun", "between", "epoch", "evaluation"};
  return kTexts[static_cast<size_t>(stage)];
}

inline const char* TextOf(PassEvent event) {
  constexpr const char* kTexts[] = {
      "every server has its slots", "an epoch begins",
      "an evaluation begins",       "an audit contradicts predictions (3 times at most)",
      "every batch counts",         "the run ends"};
  return kTexts[static_cast<size_t>(event)];
}

}  // namespace dslide
