// The page of `dslide report`: the status page's drawing code, with data in it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dslide {

// A whole HTML document. `runs`: an array; page/report.js says what of.
std::string ReportPage(const nlohmann::ordered_json& runs);

}  // namespace dslide
