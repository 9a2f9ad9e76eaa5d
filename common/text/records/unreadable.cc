#include "common/text/records/unreadable.h"

#include <fmt/format.h>

#include "common/base/plural.h"

namespace dslide {

void UnreadableRecords::LeaveOut(const Error& why) {
  if (++count_ == 1) first_ = why.message;
}

void UnreadableRecords::Append(const UnreadableRecords& later) {
  records_ += later.records_;
  if (count_ == 0) first_ = later.first_;
  count_ += later.count_;
}

Status UnreadableRecords::Check() const {
  if (count_ * 100 <= records_ * kMaxPercent) return {};
  return BadInput(fmt::format("{} ({} of {} cannot be read, and at most {} % are left out)", first_,
                              count_, Plural(records_, "record"), kMaxPercent));
}

std::string UnreadableRecords::Note(const std::string& path) const {
  if (count_ == 0) return "";
  return fmt::format("{}: {} of {} cannot be read and were left out; the first is {}", path, count_,
                     Plural(records_, "record"), first_);
}

}  // namespace dslide
