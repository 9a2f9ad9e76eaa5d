#include "scheduler/ledger/contributions.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace dslide {

void Contributions::Add(const std::string& contributor, uint32_t day, uint64_t samples) {
  const bool known = days_.contains(contributor) || days_.size() < kMost;
  days_[known ? contributor : kOthers][day] += samples;
}

std::vector<Contributions::Total> Contributions::Totals(uint32_t today) const {
  std::vector<Total> totals;
  for (const auto& [contributor, days] : days_) {
    Total total{contributor};
    for (const auto& [day, samples] : days) {
      total.samples += samples;
      if (day == today) total.today = samples;
    }
    totals.push_back(std::move(total));
  }
  std::ranges::stable_sort(totals, std::greater(), &Total::samples);
  return totals;
}

std::string DayText(uint32_t day) {
  if (day == 0) return "unknown";
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time_t{day} * 86400));
}

}  // namespace dslide
