#include "scheduler/ledger/contributions.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>

namespace dslide {

void Contributions::Add(const std::string& contributor, uint32_t day, uint64_t samples) {
  const bool known = days_.contains(contributor) || days_.size() < kMost;
  const std::string& name = known ? contributor : kOthers;
  days_[name][day] += samples;
  samples_[name] += samples;
}

std::vector<Contributions::Total> Contributions::Totals(uint32_t today, size_t most) const {
  std::vector<const std::pair<const std::string, uint64_t>*> order;
  order.reserve(samples_.size());
  for (const auto& one : samples_) order.push_back(&one);
  const size_t count = std::min(most, order.size());
  std::ranges::partial_sort(
      order, order.begin() + static_cast<std::ptrdiff_t>(count), {},
      [](const auto* one) { return std::pair(~one->second, std::string_view(one->first)); });
  std::vector<Total> totals;
  totals.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto& [contributor, samples] = *order[i];
    const Days& days = days_.at(contributor);
    const auto found = days.find(today);
    totals.push_back({contributor, samples, found == days.end() ? 0 : found->second});
  }
  return totals;
}

std::string DayText(uint32_t day) {
  if (day == 0) return "unknown";
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time_t{day} * 86400));
}

}  // namespace dslide
