// A cluster's status as tables for a terminal.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace dslide {

// `status` is what scheduler/status.h writes. Lines end with '\n' and have at most 100 columns as
// long as names have at most 12; what a scheduler does not say is "-" in a table, or left out.
std::string StatusText(const nlohmann::json& status);

}  // namespace dslide
