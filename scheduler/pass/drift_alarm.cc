#include "scheduler/pass/drift_alarm.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace dslide {
namespace {

constexpr uint64_t kWindowsPerEpoch = 20;

}  // namespace

DriftAlarm::DriftAlarm(uint64_t epoch_batches, uint32_t labels)
    : window_batches_(std::max(kLeastWindow, epoch_batches / kWindowsPerEpoch)),
      scale_(std::log(static_cast<double>(std::max(labels, 2u)))) {}

double DriftAlarm::LossOf(const Window& window) {
  std::vector<double> means;
  for (const auto& [contributor, mean] : window) {
    means.push_back(mean.sum / static_cast<double>(mean.count));
  }
  if (means.empty()) return 0;
  const auto middle = means.begin() + static_cast<std::ptrdiff_t>((means.size() - 1) / 2);
  std::ranges::nth_element(means, middle);
  return *middle;
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
  last_ = LossOf(std::exchange(window_, {}));
  in_window_ = 0;
  in_row_ = Above(last_, kDrifting) ? in_row_ + 1 : 0;
  if (!Above(last_, kRising)) suspects_.clear();
  lowest_ = std::min(lowest_.value_or(last_), last_);
}

bool DriftAlarm::calm() const {
  if (in_row_ > 0) return false;
  Window recent = trial_before_;
  for (const auto& [contributor, mean] : trial_) {
    recent[contributor].sum += mean.sum;
    recent[contributor].count += mean.count;
  }
  return recent.empty() || !Above(LossOf(recent), kRising);
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
