// The actions of a call of SchedulerCore or one of its parts, by kind.
#pragma once

#include <variant>
#include <vector>

#include "scheduler/base/actions.h"

namespace dslide {

// In their order.
template <typename T>
std::vector<T> All(const SchedulerEffects& effects) {
  std::vector<T> found;
  for (const SchedulerAction& one : effects.actions) {
    if (const T* action = std::get_if<T>(&one)) found.push_back(*action);
  }
  return found;
}

inline std::vector<action::Send> MessagesIn(const SchedulerEffects& effects) {
  return All<action::Send>(effects);
}

inline std::vector<Event> NoticesIn(const SchedulerEffects& effects) {
  std::vector<Event> events;
  for (action::Log& log : All<action::Log>(effects)) events.push_back(std::move(log.event));
  return events;
}

}  // namespace dslide
