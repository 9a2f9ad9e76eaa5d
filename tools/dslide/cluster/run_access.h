// How a command finds the scheduler of a running cluster, and the key to be let in with.
#pragma once

#include <string>

#include "common/app/command_line.h"
#include "common/base/error.h"
#include "common/security/member_key.h"

namespace dslide {

// --scheduler and --key. `with_argument`: the place may be given as an argument, too.
void DeclareRunOptions(CommandLine* line, bool with_argument);

// From what DeclareRunOptions() declares: an address, a join string, file:///PATH, or of a run on
// this machine (or a shared disk) its directory or the file scheduler.address in it. Of a directory
// the key is keys/`role`.key in it, if the run has keys and no other is given. Errors are
// AccessFrom()'s, kBadInput for a directory that is none or has no scheduler's
// address and for a run that has finished or was stopped.
Result<SchedulerAccess> RunAccess(const ParsedArguments& arguments, const std::string& role,
                                  bool with_argument);
// The same for a place that is given.
Result<SchedulerAccess> RunAccess(const std::string& place, const std::string& key_file,
                                  const std::string& role);

}  // namespace dslide
