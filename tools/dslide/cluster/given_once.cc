#include "tools/dslide/cluster/given_once.h"

#include <fmt/format.h>

#include "common/config/config_keys.h"

namespace dslide {

Status CheckGivenOnce(const ParsedArguments& arguments,
                      std::initializer_list<std::pair<const char*, const char*>> options) {
  const auto set = GivenKeys("", arguments.All("set"));
  DSLIDE_RETURN_IF_ERROR(set);
  for (const auto& [option, key] : options) {
    if (!arguments.Has(option) || !set->contains(key)) continue;
    return BadInput(fmt::format("--{} and --set {}: give one of them", option, key));
  }
  return {};
}

}  // namespace dslide
