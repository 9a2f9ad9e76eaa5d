// Looks for events by their code and fields.
#pragma once

#include <algorithm>
#include <vector>

#include "common/log/event.h"

namespace dslide {

// Whether one of the events is of this kind and has all these fields.
inline bool Has(const std::vector<Event>& events, const EventKind& kind,
                const std::vector<EventField>& fields = {}) {
  return std::ranges::any_of(events, [&](const Event& event) {
    return event.Is(kind) && std::ranges::all_of(fields, [&](const EventField& field) {
             return std::ranges::count(event.fields, field) > 0;
           });
  });
}

}  // namespace dslide
