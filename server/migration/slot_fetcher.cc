#include "server/migration/slot_fetcher.h"

#include <algorithm>

namespace dslide {

void SlotFetcher::Copy::Count(const SlotRows& taken) {
  rows += taken.rows.size();
  bytes += taken.bytes.size();
  for (size_t i = 0; i < taken.rows.size(); ++i) {
    std::vector<bool>& layer = seen[i < taken.input_rows ? 0 : 1];
    constexpr uint32_t kMostRows = 1 << 26;  // a slot's; the executors check the numbers
    if (taken.rows[i] >= kMostRows) continue;
    if (taken.rows[i] >= layer.size()) layer.resize(size_t{taken.rows[i]} + 1);
    if (layer[taken.rows[i]]) continue;
    layer[taken.rows[i]] = true;
    content += taken.ends[i] - (i == 0 ? 0 : taken.ends[i - 1]);
  }
}

bool SlotFetcher::Begin(SlotId slot, const PlanServer& from) {
  const auto [copy, is_new] = copies_.try_emplace(slot);
  if (!is_new && copy->second.from.incarnation == from.incarnation) return false;
  copy->second = Copy();
  copy->second.from = from;
  return true;
}

void SlotFetcher::Complete(SlotId slot) {
  Copy& copy = copies_.at(slot);
  if (!copy.cold) return;
  copy.cold = false;
  if (!copy.asked) copy.next_ms = 0;
}

std::vector<SlotFetcher::Due> SlotFetcher::TakeDue(int64_t now_ms) {
  std::vector<Due> due;
  size_t pulling = 0;
  for (const auto& [slot, copy] : copies_) pulling += copy.asked;
  for (auto& [slot, copy] : copies_) {
    if (copy.there || (copy.cold && copy.cold_complete)) continue;
    const bool again = copy.asked && now_ms >= copy.next_ms;
    const bool first = !copy.asked && now_ms >= copy.next_ms && pulling < kPulling &&
                       (!copy.cold || now_ms >= not_before_ms_);
    if (!again && !first) continue;
    pulling += first;
    if (again) copy.again_ms = std::min(2 * copy.again_ms, kMostAgainMs);
    copy.asked = true;
    copy.asked_cold = copy.cold;
    copy.asked_ms = now_ms;
    copy.next_ms = now_ms + copy.again_ms;
    due.push_back({copy.from, {slot.value, copy.part, copy.cold, kPartBytes, false}});
  }
  return due;
}

bool SlotFetcher::Take(const SlotRows& rows, int64_t now_ms) {
  const auto found = copies_.find({rows.slot});
  if (found == copies_.end()) return false;
  Copy& copy = found->second;
  if (copy.there || !copy.asked || rows.part != copy.part) return false;
  copy.part++;
  copy.asked = false;
  copy.next_ms = 0;
  copy.again_ms =
      std::min(copy.again_ms, std::max(kAgainMs, kAgainTimes * (now_ms - copy.asked_ms)));
  copy.left = rows.left;
  copy.Count(rows);
  bytes_ += rows.bytes.size();
  copy.there = rows.last;
  // A part that was asked for before the rest may be empty.
  if (rows.part == 0 && copy.cold) {
    copy.next_ms = now_ms + kWatchMs;
  } else if (rows.rows.empty() && !rows.last) {
    copy.cold_complete = true;
    if (!copy.asked_cold) copy.next_ms = now_ms + kRefusedMs;  // it has not switched plans yet
  }
  if (bytes_per_second_ > 0) {
    not_before_ms_ = std::max(not_before_ms_, now_ms) +
                     static_cast<int64_t>(rows.bytes.size() * 1000 / bytes_per_second_);
  }
  return true;
}

void SlotFetcher::Refused(SlotId slot, int64_t now_ms) {
  const auto found = copies_.find(slot);
  if (found == copies_.end() || !found->second.asked) return;
  Copy& copy = found->second;
  copy.asked = false;
  copy.cold_complete = false;
  copy.part = 0;
  copy.next_ms = now_ms + kRefusedMs;
}

std::vector<SlotId> SlotFetcher::slots() const {
  std::vector<SlotId> slots;
  for (const auto& [slot, copy] : copies_) slots.push_back(slot);
  return slots;
}

std::optional<PlanServer> SlotFetcher::SourceOf(SlotId slot) const {
  const auto found = copies_.find(slot);
  if (found == copies_.end()) return std::nullopt;
  return found->second.from;
}

bool SlotFetcher::AllColdThere() const {
  return std::all_of(copies_.begin(), copies_.end(), [](const auto& entry) {
    return entry.second.cold_complete || entry.second.there;
  });
}

bool SlotFetcher::AllThere() const {
  return std::all_of(copies_.begin(), copies_.end(),
                     [](const auto& entry) { return entry.second.there; });
}

uint64_t SlotFetcher::left_bytes() const {
  uint64_t left = 0;
  for (const auto& [slot, copy] : copies_) {
    if (copy.rows > 0) left += copy.left * (copy.bytes / copy.rows);
  }
  return left;
}

}  // namespace dslide
