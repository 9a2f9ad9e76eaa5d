// A cluster's status as tables for a terminal.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace dslide {

// `status` is what scheduler/status/status.h writes. Lines end with '\n'; those of tables have at
// most 100 columns as long as names have at most 12, those of decisions are wrapped at `columns`
// (0: never). Values that the scheduler does not send are "-" in a table, or left out.
std::string StatusText(const nlohmann::json& status, size_t columns = 0);

}  // namespace dslide
