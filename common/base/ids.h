// Strong types for ids. They do not convert into each other.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace dslide {

// A number that means one thing only. Comparable and hashable; arithmetic needs .value.
template <typename Tag, typename Rep>
struct Id {
  Rep value = 0;
  auto operator<=>(const Id&) const = default;
};

using SlotId = Id<struct SlotTag, uint32_t>;              // [0, V)
using ServerIndex = Id<struct ServerTag, uint32_t>;       // position in the slot plan's server list
using RunId = Id<struct RunTag, uint64_t>;                // one training run, drawn at its start
using Incarnation = Id<struct IncarnationTag, uint64_t>;  // one life of one process

// The sender of a RouterSocket's message; only valid for replies on that socket.
using PeerId = std::string;

// A batch of the run. The data order fixes its samples, whichever worker trains it.
struct BatchId {
  uint32_t epoch = 0;  // pass over the data, from 0
  uint32_t unit = 0;   // work unit within the epoch
  uint32_t index = 0;  // batch within the unit
  auto operator<=>(const BatchId&) const = default;
};

}  // namespace dslide

template <typename Tag, typename Rep>
struct std::hash<dslide::Id<Tag, Rep>> {
  size_t operator()(const dslide::Id<Tag, Rep>& id) const { return std::hash<Rep>()(id.value); }
};
