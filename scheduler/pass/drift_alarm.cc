#include "scheduler/pass/drift_alarm.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace dslide {
namespace {

constexpr uint64_t kWindowsPerEpoch = 20;

// 0 without values.
double LowerMedian(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

DriftAlarm::DriftAlarm(uint64_t epoch_batches, uint32_t labels)
    : window_batches_(std::max(kLeastWindow, epoch_batches / kWindowsPerEpoch)),
      scale_(std::log(static_cast<double>(std::max(labels, 2u)))) {}

double DriftAlarm::LossOf(const Window& window) {
  std::vector<double> means;
  for (const auto& [contributor, mean] : window) means.push_back(mean.value());
  return LowerMedian(std::move(means));
}

double DriftAlarm::RiseOf(const Window& window) const {
  std::vector<double> rises;
  for (const auto& [contributor, mean] : window) {
    const auto own = lowest_.of_one.find(contributor);
    if (own != lowest_.of_one.end()) rises.push_back(mean.value() - own->second);
  }
  if (rises.empty() && lowest_.of_many) return LossOf(window) - *lowest_.of_many;
  return LowerMedian(std::move(rises));
}

void DriftAlarm::Remember(const Window& window) {
  lowest_.of_all = std::min(lowest_.of_all.value_or(last_), last_);
  if (window.size() >= kMany) lowest_.of_many = std::min(lowest_.of_many.value_or(last_), last_);
  for (const auto& [contributor, mean] : window) {
    if (!unjudged_.contains(contributor) && unjudged_.size() >= kMostContributors) continue;
    Mean& sum = unjudged_[contributor];
    sum.sum += mean.sum;
    sum.count += mean.count;
    if (sum.count < kLeastJudged) continue;
    const double value = std::exchange(sum, Mean()).value();
    const auto own = lowest_.of_one.find(contributor);
    if (own != lowest_.of_one.end()) {
      own->second = std::min(own->second, value);
    } else if (lowest_.of_one.size() < kMostContributors) {
      lowest_.of_one.emplace(contributor, value);
    }
  }
}

void DriftAlarm::Add(const std::string& contributor, double loss) {
  batches_++;
  suspects_[contributor]++;
  for (Window* window : {&window_, &trial_}) {
    Mean& mean = (*window)[contributor];
    mean.sum += loss;
    mean.count++;
  }
  if (++in_trial_ == kTrial) {
    trial_before_ = std::exchange(trial_, {});
    in_trial_ = 0;
  }
  if (++in_window_ < window_batches_) return;
  const Window window = std::exchange(window_, {});
  in_window_ = 0;
  last_ = LossOf(window);
  const double rise = RiseOf(window);
  in_row_ = Rises(rise, kDrifting) ? in_row_ + 1 : 0;
  if (!Rises(rise, kRising)) suspects_.clear();
  Remember(window);
}

bool DriftAlarm::calm() const {
  if (in_row_ > 0) return false;
  Window recent = trial_before_;
  for (const auto& [contributor, mean] : trial_) {
    recent[contributor].sum += mean.sum;
    recent[contributor].count += mean.count;
  }
  return !Rises(RiseOf(recent), kRising);
}

void DriftAlarm::Saved() {
  saved_ = lowest_;
  returns_ = 0;
}

void DriftAlarm::BeginGeneration() {
  lowest_ = saved_;
  window_.clear();
  trial_.clear();
  trial_before_.clear();
  in_window_ = in_trial_ = 0;
  in_row_ = 0;
  suspects_.clear();
}

}  // namespace dslide
