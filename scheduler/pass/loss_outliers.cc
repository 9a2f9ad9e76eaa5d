#include "scheduler/pass/loss_outliers.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dslide {
namespace {

// A contributor that has trained nothing for so many batches of each says nothing of the present.
constexpr uint64_t kStaleRounds = 20;

// With more contributors than this the level is that of all, computed anew every quarter of a
// round: each batch costs a few steps then, however many there are.
constexpr size_t kMany = 64;

}  // namespace

LossOutliers::LossOutliers(uint32_t labels)
    : least_(kShare * std::log(static_cast<double>(labels))) {}

std::optional<double> LossOutliers::LevelOfOthers(const std::string& contributor) {
  const size_t known = contributors_.size();
  if (known > kMany && batches_ - level_at_ < known / 4) return level_;
  level_at_ = batches_;
  level_.reset();
  std::vector<double> others;
  for (const auto& [name, other] : contributors_) {
    const bool is_stale = batches_ - other.last > kStaleRounds * contributors_.size();
    if ((known > kMany || name != contributor) && other.batches >= kLeastKnown && !is_stale) {
      others.push_back(other.recent);
    }
  }
  if (others.size() + 1 < kLeastContributors) return std::nullopt;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::ranges::nth_element(others, middle);
  level_ = *middle;
  return level_;
}

std::optional<LossOutliers::Outlier> LossOutliers::Add(const std::string& contributor,
                                                       double loss) {
  batches_++;
  if (!contributors_.contains(contributor) && contributors_.size() >= kMostContributors) {
    contributors_.erase(std::ranges::min_element(
        contributors_, {}, [](const auto& entry) { return entry.second.last; }));
  }
  const std::optional<double> level = LevelOfOthers(contributor);
  Contributor& own = contributors_[contributor];
  own.recent = own.batches == 0 ? loss : own.recent + kRecent * (loss - own.recent);
  own.batches++;
  own.last = batches_;
  if (!level) return std::nullopt;
  const double difference = loss - *level;
  own.count++;
  own.losses += loss;
  own.sum += difference;
  own.squares += difference * difference;
  return own.count < kWindow ? std::nullopt : EndWindow(&own);
}

std::optional<LossOutliers::Outlier> LossOutliers::Contributor::OutlierAbove(double least) const {
  const auto n = static_cast<double>(count);
  const double mean = sum / n, loss = losses / n;
  const double error = std::sqrt(std::max(0.0, squares / n - mean * mean) / (n - 1));
  if (mean <= std::max(least, kErrors * error)) return std::nullopt;
  return Outlier{loss, loss - mean};
}

std::map<std::string, LossOutliers::Outlier> LossOutliers::Suspects() const {
  std::map<std::string, Outlier> suspects;
  for (const auto& [name, one] : contributors_) {
    if (one.count < kLeastKnown) continue;
    if (const auto outlier = one.OutlierAbove(least_)) suspects[name] = *outlier;
  }
  return suspects;
}

std::optional<LossOutliers::Outlier> LossOutliers::EndWindow(Contributor* own) const {
  const std::optional<Outlier> outlier = own->OutlierAbove(least_);
  own->count = 0;
  own->losses = own->sum = own->squares = 0;
  own->in_row = outlier ? own->in_row + 1 : 0;
  if (own->in_row < kWindowsInRow) return std::nullopt;
  own->in_row = 0;
  return outlier;
}

}  // namespace dslide
