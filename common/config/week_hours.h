// Hours of the week, by the local clock: "18:00-08:00", "mon-fri 18:00-08:00, sat-sun 00:00-24:00".
//
//   hours = "always" | part { "," part }
//   part  = [ days " " ] HH:MM "-" HH:MM
//   days  = day [ "-" day ]           mon tue wed thu fri sat sun; "fri-mon" goes over the Sunday
//
// A part without days is for every day. One that ends at or before its beginning ends on the next
// day: "fri 22:00-06:00" ends on Saturday. Parts add up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dslide {

class WeekHours {
 public:
  static constexpr int kMinutesOfDay = 24 * 60;

  WeekHours() = default;  // always
  // nullopt: the text is not of this form, or a part has no length ("08:00-08:00").
  static std::optional<WeekHours> Parse(std::string_view text);

  // `weekday`: 0 is Sunday, as in struct tm. `minute`: of the day, below kMinutesOfDay.
  bool Contains(int weekday, int minute) const;
  bool always() const { return parts_.empty(); }
  // What Parse() reads to the same hours.
  const std::string& text() const { return text_; }

  bool operator==(const WeekHours& other) const { return text_ == other.text_; }

 private:
  struct Part {
    uint8_t days = 0;  // bit 0: Sunday; the days on which it begins
    int begin = 0;     // minutes of the day
    int end = 0;       // at most kMinutesOfDay; not above `begin`: of the next day

    bool Contains(int weekday, int minute) const;
  };
  static std::optional<Part> ParsePart(std::string_view text);

  std::string text_ = "always";
  std::vector<Part> parts_;  // empty: always
};

}  // namespace dslide
