#include "scheduler/members/message_budget.h"

#include <algorithm>

namespace dslide {

void MessageBudget::Budget::Fill(int64_t now_ms) {
  const double passed_s = static_cast<double>(std::max<int64_t>(0, now_ms - filled_ms)) / 1000;
  tokens = std::min(rate * kBurstSeconds, tokens + rate * passed_s);
  filled_ms = now_ms;
}

bool MessageBudget::Take(const PeerId& from, int64_t now_ms) {
  const auto found = budgets_.find(from);
  if (found == budgets_.end()) {
    if (budgets_.size() >= kMostBudgets) Trim(now_ms);
    if (budgets_.size() >= kMostBudgets) return false;
    budgets_[from].filled_ms = now_ms;
  }
  Budget& budget = found == budgets_.end() ? budgets_.at(from) : found->second;
  budget.Fill(now_ms);
  if (budget.tokens < 1) return false;
  budget.tokens -= 1;
  return true;
}

// What a message costs is known when it has been looked at, so a budget may fall below 0. A member
// that comes to a new life of the scheduler has many messages refused before it joins.
void MessageBudget::Charge(const PeerId& from, double tokens) {
  const auto found = budgets_.find(from);
  if (found == budgets_.end()) return;
  Budget& budget = found->second;
  if (budget.rate == kOfStranger) tokens = std::min(tokens, kMostOfStranger);
  budget.tokens = std::max(budget.tokens - tokens, -budget.rate);
}

void MessageBudget::Promote(const PeerId& from) {
  const auto found = budgets_.find(from);
  if (found == budgets_.end() || found->second.rate == kOfMember) return;
  const double saved = found->second.tokens - kOfStranger * kBurstSeconds;  // at most 0
  found->second.rate = kOfMember;
  found->second.tokens = kOfMember * kBurstSeconds + saved;
}

void MessageBudget::Trim(int64_t now_ms) {
  std::erase_if(budgets_, [&](const auto& entry) {
    Budget budget = entry.second;
    budget.Fill(now_ms);
    return budget.tokens >= budget.rate * kBurstSeconds;
  });
}

}  // namespace dslide
