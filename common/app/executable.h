// The frame of every executable's main(): arguments, help, errors, exit codes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/app/command_line.h"
#include "common/base/error.h"
#include "common/config/config.h"

namespace dslide {

// Of this program: "1.2.3".
std::string ProgramVersion();
// The line that --version prints.
void PrintVersion(const std::string& program);

// Parses the arguments, answers --help, --version and (if declared) --help-config, runs `work`, and
// turns its outcome into one line on standard error and an exit code. Exceptions from libraries
// that got this far end in a line, too. Join strings in `argv` are overwritten once they are read.
// Lack of memory is none: operator new ends the process then, so sizes that come from outside are
// checked before anything is allocated for them.
int RunExecutable(const std::string& program, const CommandLine& line, int argc, char** argv,
                  const std::function<Status(const ParsedArguments&)>& work);

// --config, --set and --help-config, for every executable that reads the configuration.
void DeclareConfigOptions(CommandLine* line);
// Errors (kBadInput) are LoadConfig()'s and those of CheckNotLent().
Result<Config> ConfigFromArguments(const ParsedArguments& arguments);
// Refuses [idle], which is for the owners of lent machines, in the configuration of a run.
Status CheckNotLent(const Config& config);

// --data, --test, --format and --fields, for executables and commands that begin or estimate a run:
// short forms of --set with train.data, train.test, text.format and text.fields.
void DeclareDataOptions(CommandLine* line);
// The values of --set and, as far as they are declared, of the options of DeclareDataOptions().
// Errors (kBadInput): one is given in both ways.
Result<Overrides> OverridesOf(const ParsedArguments& arguments);

// The same options for a worker, which reads its owner's [idle] only, and a server.
void DeclareOwnConfigOptions(CommandLine* line);
Result<Config> OwnConfigFromArguments(const ParsedArguments& arguments);
// Refuses keys of [idle] that a server cannot keep.
Status CheckLentToServer(const Config& config);
// --resume and --begin-or-resume, for every executable that begins a run.
void DeclareResumeOptions(CommandLine* line);
// Whether the run of --run-dir is to be continued.
bool Resumes(const ParsedArguments& arguments);
// The configuration file of a run directory, for --resume. Errors (kBadInput) say that the
// directory holds no run.
Result<std::string> StoredConfig(const std::string& run_directory);
// Whether a server uses the key of an override ("section.key=value") itself, before it has joined.
// All other values come from the scheduler.
bool IsForServer(const std::string& assignment);
// A line for each override that a server ignores. Files are not checked: they are for the whole
// cluster.
std::vector<std::string> IgnoredByServer(const Overrides& overrides);
std::vector<std::string> IgnoredByWorker(const Overrides& overrides);

// --scheduler and --key, for every executable that dials the scheduler.
void DeclareSchedulerOptions(CommandLine* line);
// The place that is named (common/security/run_place.h), `with_argument` also as an argument; "":
// none. Errors (kBadInput): it is named in both ways.
Result<std::string> SchedulerPlace(const ParsedArguments& arguments, bool with_argument);

// Refuses text that is not an address to listen at, and addresses outside loopback unless
// `is_safe`: encrypted, or on a trusted network. `setting` names where the user gave it: "--bind"
// or "cluster.server_bind"; `mend` says what makes it safe.
Status CheckBind(const std::string& setting, const std::string& bind, bool is_safe,
                 const std::string& mend);
// Refuses an address that others could not dial. Empty: the bound address is advertised.
Status CheckAdvertise(const std::string& setting, const std::string& advertise);
// The address that others dial for a socket bound at `bound`: `advertise` if given, else `bound`.
// Of a wildcard it is the address from which this machine reaches `peer`. Refuses an interface, and
// a wildcard without a peer or with one on this machine. `key`: "cluster.server" or
// "cluster.scheduler". REQUIRES CheckAdvertise(advertise).
Result<std::string> AdvertisedAddress(const std::string& key, const std::string& bound,
                                      const std::string& advertise, const std::string& peer = "");

}  // namespace dslide
