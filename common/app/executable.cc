#include "common/app/executable.h"

#include <fmt/core.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string_view>

#include "common/app/endings.h"
#include "common/app/open_files.h"
#include "common/base/address.h"
#include "common/base/failpoint.h"
#include "common/base/nearest.h"
#include "common/checkpoint/layout.h"
#include "common/config/config_keys.h"
#include "common/log/log.h"
#include "common/net/local_address.h"

namespace dslide {
namespace {

constexpr char kVersion[] = DSLIDE_VERSION;

int Report(const std::string& program, const Error& error) {
  PrintFailure(program, error.message);
  return ExitCode(error.kind);
}

// A setting and its value as the user wrote it: "--bind VALUE" or "section.key = VALUE".
std::string Given(const std::string& setting, const std::string& value) {
  return fmt::format("{} {}{}", setting, setting.starts_with("--") ? "" : "= ", Printable(value));
}

// Whether `bound` does not tell others which address of this machine to dial.
bool NamesNoAddress(const std::string& bound) {
  const std::optional<TcpAddress> tcp = ParseTcp(bound);
  return tcp && (!WhyNotDialable(bound).empty() || if_nametoindex(tcp->host.c_str()) != 0);
}

const ConfigKey* KeyOf(const std::string& assignment) {
  std::string name = assignment.substr(0, assignment.find('='));
  std::erase(name, ' ');
  return FindConfigKey(name);
}

// Every user of this machine can read the command line of every process.
void HideJoinStrings(int argc, char** argv) {
  constexpr std::string_view kScheme = "dslide://";
  for (int i = 1; i < argc; ++i) {
    const size_t at = std::string_view(argv[i]).find(kScheme);
    if (at == std::string_view::npos) continue;
    for (char* c = argv[i] + at + kScheme.size(); *c != '\0'; ++c) *c = 'x';
  }
}

// What a command has printed is its result. A reader that has seen enough is no failure.
Status FlushOutput() {
  if (std::fflush(stdout) == 0 || errno == EPIPE) return {};
  return Failed(fmt::format("standard output: {}", std::strerror(errno)));
}

}  // namespace

std::string ProgramVersion() { return kVersion; }

void PrintVersion(const std::string& program) { fmt::print("{} {}\n", program, kVersion); }

int RunExecutable(const std::string& program, const CommandLine& line, int argc, char** argv,
                  const std::function<Status(const ParsedArguments&)>& work) try {
  const Result<ParsedArguments> arguments = line.Parse(argc, argv);
  HideJoinStrings(argc, argv);
  if (const Status known = CheckLogFormat(); !known.ok()) return Report(program, known.error());
  const std::string role = program.starts_with("dslide-") ? program.substr(7) : program;
  StartLog(role, program, "warn");  // spdlog's own goes to standard output
  if (!arguments.ok()) return Report(program, arguments.error());
  if (arguments->Has("help")) {
    const bool is_command = program.find(' ') != std::string::npos;
    fmt::print("{}\n{}", line.Help(),
               is_command ? "exit codes and signals: dslide --help\n" : EndingsHelp());
    return 0;
  }
  if (arguments->Has("version")) {
    PrintVersion(program);
    return 0;
  }
  if (arguments->Declares("help-config") && arguments->Has("help-config")) {
    fmt::print("{}", ConfigHelp());
    return 0;
  }
  const Status enough_files = RaiseOpenFileLimit();
  if (!enough_files.ok()) return Report(program, enough_files.error());
  const Status armed = ArmFailpointsFromEnvironment();
  if (!armed.ok()) return Report(program, armed.error());
  const Status outcome = work(*arguments);
  if (!outcome.ok()) return Report(program, outcome.error());
  const Status written = FlushOutput();
  return written.ok() ? 0 : Report(program, written.error());
} catch (const std::exception& error) {
  return Report(program, Failed(fmt::format("unexpected: {}", error.what())));
}

void DeclareConfigOptions(CommandLine* line) {
  line->Option("config", "FILE", "configuration of the cluster (INI)");
  line->Repeated("set", "SECTION.KEY=VALUE", "override a value of the configuration");
  line->Flag("help-config", "list all configuration keys and exit");
}

Result<Config> ConfigFromArguments(const ParsedArguments& arguments) {
  Result<Config> config = OwnConfigFromArguments(arguments);
  DSLIDE_RETURN_IF_ERROR(config);
  DSLIDE_RETURN_IF_ERROR(CheckNotLent(*config));
  return config;
}

Status CheckNotLent(const Config& config) {
  if (!config.idle.given) return {};
  return BadInput(
      "the keys of [idle] are for the owner of a lent machine: give them to dslide-worker or "
      "dslide-server, in a file of their own (configs/volunteer.ini)");
}

void DeclareDataOptions(CommandLine* line) {
  line->Option("data", "FILE", "training data (train.data); -: standard input");
  line->Option("test", "FILE", "samples to evaluate on (train.test)");
  line->Option("format", "FORMAT", "of the data files (text.format)");
  line->Option("fields", "FIELD:NAME,...", "names of fields in JSON and CSV (text.fields)");
}

Result<Overrides> OverridesOf(const ParsedArguments& arguments) {
  Overrides overrides = arguments.All("set");
  for (const std::string key : {"train.data", "train.test", "text.format", "text.fields"}) {
    const std::string option = key.substr(key.find('.') + 1);
    if (!arguments.Declares(option) || !arguments.Has(option)) continue;
    const ConfigKey* known = FindConfigKey(key);
    if (std::ranges::any_of(arguments.All("set"),
                            [&](const std::string& set) { return KeyOf(set) == known; })) {
      return BadInput(
          fmt::format("{} is given twice, by --{} and by --set; give one of them", key, option));
    }
    overrides.push_back(key + "=" + arguments.Get(option));
  }
  return overrides;
}

void DeclareOwnConfigOptions(CommandLine* line) {
  line->Option("config", "FILE", "what this machine's owner allows: [idle] (INI)");
  line->Repeated("set", "SECTION.KEY=VALUE", "override a value of the file");
  line->Flag("help-config", "list all configuration keys and exit");
}

Result<Config> OwnConfigFromArguments(const ParsedArguments& arguments) {
  return LoadConfig(arguments.Get("config"), arguments.All("set"));
}

Status CheckLentToServer(const Config& config) {
  const Config defaults;
  for (const ConfigKey& key : ConfigKeys()) {
    if (!key.workers_own || key.servers_own) continue;
    const std::string value = key.field.format(config);
    if (value == key.field.format(defaults)) continue;
    return BadInput(fmt::format(
        "{} = {}: a server owns a part of the model and cannot pause; leave the key out, or lend "
        "this machine to a worker",
        key.FullName(), value));
  }
  return {};
}

void DeclareResumeOptions(CommandLine* line) {
  line->Flag("resume", "continue from the newest checkpoint of --run-dir");
  line->Flag(
      "begin-or-resume",
      "the same if --run-dir holds a run, else begin one: for what is started again by itself");
}

bool Resumes(const ParsedArguments& arguments) {
  if (arguments.Has("resume")) return true;
  std::error_code error;
  return arguments.Has("begin-or-resume") &&
         std::filesystem::exists(arguments.Get("run-dir") + "/" + kLedgerName, error);
}

Result<std::string> StoredConfig(const std::string& run_directory) {
  std::string path = run_directory + "/config.ini";
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path;
  return BadInput(fmt::format(
      "--resume: {} holds no run (it has no config.ini); start one with --config, without --resume",
      run_directory));
}

namespace {

std::vector<std::string> Ignored(const Overrides& overrides, bool ConfigKey::*by_itself) {
  std::vector<std::string> lines;
  for (const std::string& assignment : overrides) {
    const ConfigKey* key = KeyOf(assignment);
    if (key != nullptr && key->*by_itself) continue;
    lines.push_back(fmt::format("{} comes from the scheduler; --set {} is ignored",
                                assignment.substr(0, assignment.find('=')), assignment));
  }
  return lines;
}

}  // namespace

bool IsForServer(const std::string& assignment) {
  const ConfigKey* key = KeyOf(assignment);
  return key != nullptr && key->servers_own;
}

std::vector<std::string> IgnoredByServer(const Overrides& overrides) {
  return Ignored(overrides, &ConfigKey::servers_own);
}

std::vector<std::string> IgnoredByWorker(const Overrides& overrides) {
  return Ignored(overrides, &ConfigKey::workers_own);
}

void DeclareSchedulerOptions(CommandLine* line) {
  line->Option(
      "scheduler", "PLACE",
      "the scheduler's address, e.g. tcp://10.0.0.1:7700, a join string, or a run directory");
  line->Option("key", "FILE", "key file, as the scheduler makes them in RUN/keys");
}

Result<std::string> SchedulerPlace(const ParsedArguments& arguments, bool with_argument) {
  if (!with_argument || arguments.Positional().empty()) return arguments.Get("scheduler");
  if (!arguments.Has("scheduler")) return arguments.Positional()[0];
  return BadInput("the scheduler is given twice, as an argument and by --scheduler");
}

Status CheckBind(const std::string& setting, const std::string& bind, bool is_safe,
                 const std::string& mend) {
  if (const std::string why = WhyNotListenable(bind); !why.empty()) {
    return BadInput(fmt::format("{}: {}", Given(setting, bind), why));
  }
  if (is_safe || IsLoopback(bind)) return {};
  return BadInput(fmt::format(
      "{} can be reached from other machines, without encryption; {}, or set security.encryption = "
      "trusted-network if nobody else is on that network",
      Given(setting, bind), mend));
}

Status CheckAdvertise(const std::string& setting, const std::string& advertise) {
  const std::string why = advertise.empty() ? "" : WhyNotAdvertisable(advertise);
  if (why.empty()) return {};
  return BadInput(fmt::format("{}: {}", Given(setting, advertise), why));
}

Result<std::string> AdvertisedAddress(const std::string& key, const std::string& bound,
                                      const std::string& advertise, const std::string& peer) {
  if (!advertise.empty()) {
    // "tcp://host:*" stands for the port that was bound.
    if (!advertise.ends_with(":*")) return advertise;
    return advertise.substr(0, advertise.size() - 1) + bound.substr(bound.rfind(':') + 1);
  }
  if (!NamesNoAddress(bound)) return bound;
  const std::optional<TcpAddress> tcp = ParseTcp(bound);
  if (!peer.empty() && (tcp->host == "*" || tcp->host == "0.0.0.0" || tcp->host == "[::]")) {
    const Result<std::string> host = LocalHostTowards(peer);
    DSLIDE_RETURN_IF_ERROR(host);
    std::string address = fmt::format("tcp://{}:{}", *host, tcp->port);
    // Of a scheduler on this machine; workers may be on others.
    if (!IsLoopback(address) && host->find('%') == std::string::npos) return address;
    return BadInput(
        fmt::format("{}_bind = {} does not say which address of this machine others dial, and the "
                    "way to the scheduler at {} does not either: it is on this machine; give "
                    "--advertise tcp://HOST:PORT, or set {}_advertise",
                    key, bound, peer, key));
  }
  return BadInput(
      fmt::format("{}_bind = {} does not say which address of this machine others dial; give "
                  "--advertise tcp://HOST:PORT, or set {}_advertise",
                  key, bound, key));
}

}  // namespace dslide
