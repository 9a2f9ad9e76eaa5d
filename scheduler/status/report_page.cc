#include "scheduler/status/report_page.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/check.h"
#include "pages.h"
#include "scheduler/status/history.h"

namespace dslide {
namespace {

constexpr std::string_view kPlace = "[\"runs\"]";  // of the data in report.html

// JSON for a script element: '<' is only in strings, and would end the element ("</script>").
std::string Embedded(const nlohmann::ordered_json& json) {
  std::string text;
  for (const char c : TextOf(json)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string ReportPage(const nlohmann::ordered_json& runs) {
  std::string page = kReportPage;
  const size_t place = page.find(kPlace);
  DSLIDE_CHECK(place != std::string::npos);
  return page.replace(place, kPlace.size(), Embedded(runs));
}

}  // namespace dslide
