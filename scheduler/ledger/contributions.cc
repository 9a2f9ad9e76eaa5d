#include "scheduler/ledger/contributions.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>

#include "common/base/plural.h"

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

bool IsOwnKey(std::string_view name) {
  constexpr std::string_view kOwn = "worker";
  if (!name.starts_with(kOwn)) return false;
  name.remove_prefix(kOwn.size());
  return name.empty() || (name.front() == '-' && name.size() > 1 &&
                          name.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

std::string FewContributorsLine(const Contributions& contributions) {
  constexpr size_t kEnough = 3;
  const auto& days = contributions.days();
  const bool has_other =
      std::ranges::any_of(days, [](const auto& one) { return !IsOwnKey(one.first); });
  if (!has_other || days.size() >= kEnough) return "";
  return fmt::format(
      "trained by {}: with fewer than three, wrong batches of one cannot be told from right ones "
      "of "
      "another",
      Plural(days.size(), "contributor"));
}

std::string DayText(uint32_t day) {
  if (day == 0) return "unknown";
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time_t{day} * 86400));
}

}  // namespace dslide
