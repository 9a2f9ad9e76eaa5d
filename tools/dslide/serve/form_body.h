// Bodies of the type application/x-www-form-urlencoded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dslide {

// The fields by name, the first of each; nullopt: not of that form, or more than kMostFormFields.
std::optional<std::map<std::string, std::string>> ParseForm(std::string_view body);

}  // namespace dslide
