// Records of a file that cannot be read: they are left out and counted.
//
// The file alone decides which records these are. Each thread counts the records of its blocks;
// added up in the blocks' order, the counts do not depend on the number of threads. A file with
// numbers is refused at the first such line instead: programs write these files, so the line shows
// that the file is damaged.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"

namespace dslide {

class UnreadableRecords {
 public:
  // If a larger share cannot be read, the file is probably not the one that the user meant.
  static constexpr uint64_t kMaxPercent = 1;

  // Counts a record, whether it can be read or not.
  void CountRecord() { ++records_; }
  // Marks the record that was counted last as unreadable. `why` names its place.
  void LeaveOut(const Error& why);
  // Adds the counts of the lines that follow.
  void Append(const UnreadableRecords& later);

  uint64_t count() const { return count_; }
  uint64_t records() const { return records_; }
  // "FILE:LINE: what is wrong" of the first one; REQUIRES count() > 0.
  const std::string& first() const { return first_; }

  // An error if more than kMaxPercent of the records cannot be read. REQUIRES that all are counted.
  Status Check() const;
  // A line for people: the number of records that were left out, and the first one; "" if none was.
  std::string Note(const std::string& path) const;

 private:
  uint64_t records_ = 0;
  uint64_t count_ = 0;
  std::string first_;
};

}  // namespace dslide
