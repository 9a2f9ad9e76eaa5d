#include "tools/dslide/doctor/finding.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dslide {
namespace {

const char* NameOf(Finding::Level level) {
  switch (level) {
    case Finding::Level::kFine:
      return "ok";
    case Finding::Level::kNote:
      return "note";
    case Finding::Level::kProblem:
      return "PROBLEM";
  }
  return "";
}

}  // namespace

size_t Findings::Count(Finding::Level level) const {
  return static_cast<size_t>(std::ranges::count(all_, level, &Finding::level));
}

std::string Findings::Text() const {
  size_t width = 0;
  for (const Finding& finding : all_) width = std::max(width, finding.check.size());
  std::string text;
  for (const Finding& finding : all_) {
    text += fmt::format("{:<7}  {:<{}}  {}\n", NameOf(finding.level), finding.check, width,
                        finding.what);
    if (!finding.mend.empty()) {
      text += fmt::format("{:<7}  {:<{}}  -> {}\n", "", "", width, finding.mend);
    }
  }
  return text;
}

std::string Findings::Json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : all_) {
    list.push_back({{"level", NameOf(finding.level)},
                    {"check", finding.check},
                    {"what", finding.what},
                    {"mend", finding.mend}});
  }
  return nlohmann::json{{"problems", Count(Finding::Level::kProblem)},
                        {"notes", Count(Finding::Level::kNote)},
                        {"findings", list}}
      .dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace dslide
