// How a command finds the scheduler of a running cluster, and the key to be let in with.
#pragma once

#include <string>

#include "common/app/command_line.h"
#include "common/base/error.h"
#include "common/security/member_key.h"

namespace dslide {

// --scheduler and --key. `with_argument`: the place may be given as an argument, too.
void DeclareRunOptions(CommandLine* line, bool with_argument);

// Access as the options of DeclareRunOptions() name it. Errors are those of AccessTo(), and
// kBadInput for a run that has finished or was stopped.
Result<SchedulerAccess> RunAccess(const ParsedArguments& arguments, const std::string& role,
                                  bool with_argument);
// The same for a place that is given.
Result<SchedulerAccess> RunAccess(const std::string& place, const std::string& key_file,
                                  const std::string& role);

}  // namespace dslide
