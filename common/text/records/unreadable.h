// Records of a file that cannot be read: they are left out and counted, or refused
// (text.bad_records).
//
// Which ones they are depends on the file alone. Threads count those of the blocks that they work
// on; added up in the blocks' order, the counts do not depend on the number of threads. Files with
// numbers are refused at the first such line instead: programs write them, so that it says that the
// file is damaged.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "common/config/config.h"

namespace dslide {

class UnreadableRecords {
 public:
  // A file of which more cannot be read is another one than the user thinks.
  static constexpr uint64_t kMaxPercent = 1;

  UnreadableRecords() = default;
  explicit UnreadableRecords(BadRecords policy) : policy_(policy) {}

  // For each record of the file, whether it can be read or not.
  void CountRecord() { ++records_; }
  // The record that was counted last cannot be read, for a reason that names its place. The error
  // is that reason, where the first such record is refused.
  Status LeaveOut(const Error& why);
  // Adds those of the lines that follow.
  void Append(const UnreadableRecords& later);

  uint64_t count() const { return count_; }
  uint64_t records() const { return records_; }
  // "FILE:LINE: what is wrong" of the first one; REQUIRES count() > 0.
  const std::string& first() const { return first_; }

  // An error if more than kMaxPercent of the records cannot be read. REQUIRES that all are counted.
  Status Check() const;
  // For people: how many were left out, and the first one; "" if there are none.
  std::string Note(const std::string& path) const;

 private:
  BadRecords policy_ = BadRecords::kLeaveOut;
  uint64_t records_ = 0;
  uint64_t count_ = 0;
  std::string first_;
};

}  // namespace dslide
