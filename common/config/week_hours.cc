#include "common/config/week_hours.h"

#include <algorithm>
#include <array>

#include "common/config/small_text.h"

namespace dslide {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
constexpr uint8_t kEveryDay = 0x7f;

std::optional<int> ParseDay(std::string_view text) {
  for (size_t day = 0; day < kDays.size(); ++day) {
    if (kDays[day] == text) return static_cast<int>(day);
  }
  return std::nullopt;
}

// "mon" or "mon-fri" as bits.
std::optional<uint8_t> ParseDays(std::string_view text) {
  const size_t dash = text.find('-');
  const std::optional<int> first = ParseDay(text.substr(0, dash));
  const std::optional<int> last =
      dash == std::string_view::npos ? first : ParseDay(text.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  uint8_t days = 0;
  for (int day = *first;; day = (day + 1) % 7) {
    days = static_cast<uint8_t>(days | 1 << day);
    if (day == *last) return days;
  }
}

// "HH:MM" as minutes of the day; 24:00 is the last.
std::optional<int> ParseMinute(std::string_view text) {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  for (const size_t i : {0, 1, 3, 4}) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
  }
  const auto two = [&](size_t i) { return 10 * (text[i] - '0') + (text[i + 1] - '0'); };
  const int minute = 60 * two(0) + two(3);
  if (two(3) > 59 || minute > WeekHours::kMinutesOfDay) return std::nullopt;
  return minute;
}

}  // namespace

std::optional<WeekHours::Part> WeekHours::ParsePart(std::string_view text) {
  text = Stripped(text);
  Part part;
  part.days = kEveryDay;
  if (const size_t space = text.find_first_of(" \t"); space != std::string_view::npos) {
    const std::optional<uint8_t> days = ParseDays(text.substr(0, space));
    if (!days) return std::nullopt;
    part.days = *days;
    text = Stripped(text.substr(space));
  }
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::optional<int> begin = ParseMinute(Stripped(text.substr(0, dash)));
  const std::optional<int> end = ParseMinute(Stripped(text.substr(dash + 1)));
  if (!begin || !end || *begin == *end || *begin == kMinutesOfDay) return std::nullopt;
  part.begin = *begin;
  part.end = *end;
  return part;
}

std::optional<WeekHours> WeekHours::Parse(std::string_view text) {
  WeekHours hours;
  if (text == "always") return hours;
  hours.text_ = text;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::optional<Part> part = ParsePart(text.substr(begin, comma - begin));
    if (!part) return std::nullopt;
    hours.parts_.push_back(*part);
    begin = comma + 1;
  }
  return hours;
}

bool WeekHours::Part::Contains(int weekday, int minute) const {
  const auto begins_on = [&](int day) { return (days >> day & 1) != 0; };
  if (begin < end) return begins_on(weekday) && minute >= begin && minute < end;
  return (begins_on(weekday) && minute >= begin) || (begins_on((weekday + 6) % 7) && minute < end);
}

bool WeekHours::Contains(int weekday, int minute) const {
  if (always()) return true;
  for (const Part& part : parts_) {
    if (part.Contains(weekday, minute)) return true;
  }
  return false;
}

}  // namespace dslide
