#include "server/gate/norm_bound.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>

namespace dslide {
namespace {

float Percentile99(const std::deque<float>& norms) {
  std::vector<float> sorted(norms.begin(), norms.end());
  std::ranges::sort(sorted);
  const auto rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(sorted.size())));
  return sorted[rank - 1];
}

}  // namespace

std::optional<float> NormBound::BoundOf(Incarnation sender) const {
  std::vector<float> others;
  std::optional<float> own;
  for (const auto& [id, norms] : senders_) {
    if (!norms.counts()) continue;
    if (id == FingerprintOf(sender)) {
      own = PercentileOf(norms);
    } else {
      others.push_back(PercentileOf(norms));
    }
  }
  const size_t late_others = late_.size() - (late_.contains(FingerprintOf(sender)) ? 1 : 0);
  if (learning_ > 0 && others.size() < late_others)
    return own ? std::optional(kFewFactor * *own) : std::nullopt;
  if (others.size() >= 2) {
    const auto median = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
    std::ranges::nth_element(others, median);
    return kFactor * *median;
  }
  if (others.empty()) return own ? std::optional(kFewFactor * *own) : std::nullopt;
  return own ? kFewFactor * std::max(*own, others[0]) : kNewFactor * others[0];
}

bool NormBound::Takes(Incarnation sender, const BatchId& batch, float norm) {
  if (norm == 0) return true;
  const Key key = FingerprintOf(sender);
  if (const auto before = accepted_.find(batch);
      before != accepted_.end() && norm <= kAlike * before->second) {
    NoteTaken(key);
    return true;
  }
  const float bound = BoundOf(sender).value_or(std::numeric_limits<float>::max());
  if (!(norm <= bound)) {
    if (!TakesSuspect(sender, batch, norm) && !IsTraining(key)) return false;
    NoteLate(key);  // its refusals still count: this batch was not within the bound
    return true;
  }
  if (const auto suspect = suspects_.find(batch); suspect != suspects_.end()) {
    const Suspect& first = suspect->second;
    if (FingerprintOf(first.sender) != key && first.norm > kFactor * norm) {
      lies_.push_back({first.sender, batch});
    }
    suspects_.erase(suspect);
  }
  Add(key, norm);
  NoteTaken(key);
  return true;
}

bool NormBound::TakesSuspect(Incarnation sender, const BatchId& batch, float norm) {
  const auto found = suspects_.find(batch);
  if (found == suspects_.end()) {
    if (suspects_.size() >= kMostSuspects) suspects_.erase(suspects_.begin());
    suspects_.emplace(batch, Suspect{sender, norm, 1});
    return false;
  }
  Suspect& before = found->second;
  const bool alike = norm <= kAlike * before.norm && before.norm <= kAlike * norm;
  const Key key = FingerprintOf(sender);
  const bool only = late_.empty() || (late_.size() == 1 && late_.contains(key));
  const bool taken = FingerprintOf(before.sender) == key ? only && ++before.times >= kTries : alike;
  if (!taken) return false;
  suspects_.erase(found);
  if (accepted_.size() >= kMostSuspects) accepted_.erase(accepted_.begin());
  accepted_[batch] = norm;
  return true;
}

void NormBound::Forget(Incarnation sender) {
  const Key key = FingerprintOf(sender);
  std::erase(recent_, key);
  late_.erase(key);
  refusals_.erase(key);
}

bool NormBound::IsTraining(Key refused) {
  if (!refusals_.contains(refused) && refusals_.size() >= kMostSenders) {
    refusals_.erase(refusals_.begin());
  }
  refusals_[refused]++;
  size_t all = 0, refused_senders = 0, senders = late_.size();
  for (const auto& [key, count] : refusals_) {
    if (!late_.contains(key)) senders++;
    if (count < kOfOneSender) continue;  // a sender may have a large batch now and then
    all += count;
    refused_senders++;
  }
  if (all < kOnEnd || 2 * refused_senders <= senders) return false;
  senders_.clear();
  suspects_.clear();
  refusals_.clear();
  learning_ = kRecent;
  return true;
}

void NormBound::Add(Key id, float norm) {
  if (!senders_.contains(id) && senders_.size() >= kMostSenders) {
    senders_.erase(std::ranges::min_element(senders_, {},
                                            [](const auto& entry) { return entry.second.turn; }));
  }
  Sender& sender = senders_[id];
  sender.turn = ++turn_;
  sender.norms.push_back(norm);
  if (sender.norms.size() > kWindow) sender.norms.pop_front();
  sender.percentile = Percentile99(sender.norms);
}

void NormBound::NoteTaken(Key sender) {
  refusals_.erase(sender);
  NoteLate(sender);
}

void NormBound::NoteLate(Key sender) {
  if (learning_ > 0) learning_--;
  recent_.push_back(sender);
  late_[sender]++;
  if (recent_.size() <= kRecent) return;
  const auto oldest = late_.find(recent_.front());
  if (--oldest->second == 0) late_.erase(oldest);
  recent_.pop_front();
}

std::string NormBound::Basis() const {
  std::string text;
  size_t shown = 0;
  for (const auto& [key, sender] : senders_) {
    if (!sender.counts()) continue;
    if (shown++ == kShownSenders) break;
    text += fmt::format("{}{:08x} {:.3g}", text.empty() ? "" : ", ", key, sender.percentile);
  }
  return text;
}

}  // namespace dslide
