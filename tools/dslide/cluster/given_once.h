// Options of commands that stand for keys of the configuration.
#pragma once

#include <initializer_list>
#include <utility>

#include "common/app/command_line.h"
#include "common/base/error.h"

namespace dslide {

// Refuses an option together with --set of its key. `options`: names of options with their keys,
// such as {"servers", "cluster.servers"}.
Status CheckGivenOnce(const ParsedArguments& arguments,
                      std::initializer_list<std::pair<const char*, const char*>> options);

}  // namespace dslide
