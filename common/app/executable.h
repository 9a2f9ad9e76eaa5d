// What main() of every executable does around its work: arguments, help, errors, exit codes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/app/command_line.h"
#include "common/base/error.h"
#include "common/config/config.h"

namespace dslide {

// Parses the arguments, answers --help, --version and (if declared) --help-config, runs `work`, and
// turns its outcome into one line on standard error and an exit code. Exceptions from libraries
// that got this far end in a line, too. Lack of memory is none: operator new ends the process then,
// so sizes that come from outside are checked before anything is allocated for them.
int RunExecutable(const std::string& program, const CommandLine& line, int argc, char** argv,
                  const std::function<Status(const ParsedArguments&)>& work);

// --config, --set and --help-config, which all that read the configuration have.
void DeclareConfigOptions(CommandLine* line);
Result<Config> ConfigFromArguments(const ParsedArguments& arguments);
// Whether a server uses the key of an override ("section.key=value") itself: what it does before it
// has joined. All else comes from the scheduler.
bool IsForServer(const std::string& assignment);
// The lines that tell which overrides a server ignores. What a file says is for the whole cluster.
std::vector<std::string> IgnoredByServer(const Overrides& overrides);

// Refuses what is no address to listen at, and one outside loopback unless `allow_plaintext`.
// `setting` is what the user gave it by: "--bind" or "cluster.server_bind".
Status CheckBind(const std::string& setting, const std::string& bind, bool allow_plaintext);
// Refuses what others could not dial. Empty: the bound address will do.
Status CheckAdvertise(const std::string& setting, const std::string& advertise);
// The address that others dial for a socket bound at `bound`: `advertise` if given, else `bound`.
// Refuses a bound wildcard or interface without advertise. `key`: "cluster.server" or
// "cluster.scheduler". REQUIRES CheckAdvertise(advertise).
Result<std::string> AdvertisedAddress(const std::string& key, const std::string& bound,
                                      const std::string& advertise);

}  // namespace dslide
