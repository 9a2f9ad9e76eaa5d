#include "scheduler/status/report_page.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace dslide::report_page_test {
namespace {

TEST_CASE("report page: data cannot end the element that it is in") {
  const std::string page = ReportPage({{{"name", "</script><script>alert(1)</script>"}}});
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("alert(1)") != std::string::npos);
  CHECK(page.find("<script>alert(1)") == std::string::npos);
  CHECK(page.find("\\u003c/script>") != std::string::npos);
}

TEST_CASE("report page: nothing is loaded from elsewhere") {
  const std::string page = ReportPage(nlohmann::ordered_json::array());
  for (const char* part : {"https://", "src=", "@import", "url(", "innerHTML"}) {
    CAPTURE(part);
    CHECK(page.find(part) == std::string::npos);
  }
}

}  // namespace
}  // namespace dslide::report_page_test
