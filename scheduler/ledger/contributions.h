// Who has trained how much: samples by contributor and day, so that volunteers can be thanked.
//
// What a recovery takes back counts here, too: the work was done. One thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dslide {

class Contributions {
 public:
  static constexpr size_t kMost = 10000;  // contributors; those who come later share one name
  static constexpr const char* kOthers = "(others)";

  // Samples by day: days since 1970 (UTC), 0 where it is not known.
  using Days = std::map<uint32_t, uint64_t>;
  struct Total {
    std::string contributor;
    uint64_t samples = 0;
    uint64_t today = 0;
  };

  void Add(const std::string& contributor, uint32_t day, uint64_t samples);

  const std::map<std::string, Days>& days() const { return days_; }
  // The greatest first; of equal ones the names decide. `most`: so many of them. The cost is of all
  // contributors, and not of their days.
  std::vector<Total> Totals(uint32_t today, size_t most = std::numeric_limits<size_t>::max()) const;

 private:
  std::map<std::string, Days> days_;
  std::map<std::string, uint64_t> samples_;  // of all days
};

// Whether a run or dslide train draws the key of this name for its own workers: "worker",
// "worker-1" and so on.
bool IsOwnKey(std::string_view name);
// Where fewer than three contributors have trained, and one of them has not a key of IsOwnKey():
// that a wrong batch of one cannot be told from a right batch of another. "" elsewhere.
std::string FewContributorsLine(const Contributions& contributions);

// The day of a moment, in seconds since 1970 (UTC).
constexpr uint32_t DayOf(int64_t seconds) { return static_cast<uint32_t>(seconds / 86400); }
// "2026-11-25"; "unknown" for 0.
std::string DayText(uint32_t day);

}  // namespace dslide
