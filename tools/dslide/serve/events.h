// The kinds of events that dslide serve reports.
#pragma once

#include "common/log/event.h"

namespace dslide::event {

inline constexpr EventKind kModelLoaded = {"model.load", "a model was loaded, or loaded again"};
inline constexpr EventKind kModelLoadFailed = {
    "model.load.fail", "a new model cannot be loaded; the one before stays"};
inline constexpr EventKind kModelDamaged = {"model.damaged",
                                            "the model's file cannot be read; requests get 500"};
inline constexpr EventKind kRequestsUnanswered = {
    "serve.stop.unanswered", "the server ended before it had answered all requests"};

}  // namespace dslide::event
