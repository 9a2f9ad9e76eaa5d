#include "tools/dslide/keys/key_commands.h"

#include <fmt/core.h>

#include <cstdio>
#include <optional>
#include <string>

#include "common/app/executable.h"
#include "common/base/address.h"
#include "common/base/nearest.h"
#include "common/base/process.h"
#include "common/config/config_fields.h"
#include "common/config/small_text.h"
#include "common/security/run_keys.h"

namespace dslide {
namespace {

// "30d", "12h", "45m" or "90s" in seconds. Errors name the option.
Result<int64_t> Duration(const std::string& option, const std::string& text) {
  constexpr int64_t kMost = int64_t{100} * 366 * 24 * 3600;
  int64_t unit = 0;
  switch (text.empty() ? ' ' : text.back()) {
    case 's':
      unit = 1;
      break;
    case 'm':
      unit = 60;
      break;
    case 'h':
      unit = 3600;
      break;
    case 'd':
      unit = 24 * 3600;
      break;
    default:
      break;
  }
  const std::optional<uint32_t> count =
      unit == 0 ? std::nullopt : ParseNumber<uint32_t>(text.substr(0, text.size() - 1));
  if (count && *count > 0 && *count <= kMost / unit) return *count * unit;
  return BadInput(fmt::format(
      "--{} {}: must be a number of days, hours, minutes or seconds: 30d, 12h, 45m, 90s", option,
      Printable(text)));
}

CommandLine RunLine(const std::string& usage, const std::string& summary) {
  CommandLine line(usage, summary);
  line.Positional("RUN", "the run directory of an encrypted run", 1, 1);
  return line;
}

Result<RunKeys> KeysOf(const ParsedArguments& arguments) {
  return RunKeys::Open(arguments.Positional().front());
}

const char* ProgramOf(KeyRole role) {
  if (role == KeyRole::kServer) return "dslide-server";
  return role == KeyRole::kWorker ? "dslide-worker" : "dslide status";
}

// What its holder needs, for standard output; what to do with it, for standard error.
void PrintInvitation(const MemberKey& key, const Grant& grant, const std::string& file,
                     const std::string& run) {
  if (key.scheduler.empty()) {
    fmt::print(stderr,
               "{} {} may join. The join string is there when the scheduler listens, which is when "
               "it has read its data:\n  dslide key join {} --name {}\n",
               NameOf(grant.role), grant.name, run, grant.name);
    return;
  }
  fmt::print("{}\n", JoinString(key));
  const char* program = ProgramOf(grant.role);
  if (key.secret_key) {
    fmt::print(stderr,
               "whoever has this line joins as {} {}; it is a secret. It is in {} too:\n  {} --key "
               "{}\n",
               NameOf(grant.role), grant.name, file, program, file);
  } else {
    fmt::print(stderr, "for the holder of the key: {} --scheduler THIS_LINE --key FILE\n", program);
  }
}

Status Allow(const ParsedArguments& arguments) {
  Result<RunKeys> keys = KeysOf(arguments);
  DSLIDE_RETURN_IF_ERROR(keys);
  Grant grant;
  const std::optional<KeyRole> role = KeyRoleFrom(arguments.Get("role"));
  if (!role) {
    return BadInput(fmt::format("--role {}: must be worker, server, observer or operator",
                                Printable(arguments.Get("role"))));
  }
  grant.role = *role;
  grant.name = arguments.Get("name");
  grant.added_s = SecondsSince1970();
  if (arguments.Has("expires")) {
    const Result<int64_t> left = Duration("expires", arguments.Get("expires"));
    DSLIDE_RETURN_IF_ERROR(left);
    grant.expires_s = grant.added_s + *left;
  }
  const Result<uint32_t> members = arguments.Number("members", 0, 1'000'000);
  DSLIDE_RETURN_IF_ERROR(members);
  grant.members = *members;
  std::optional<PublicKey> own;
  if (arguments.Has("public")) {
    own = PublicKeyFrom(Stripped(arguments.Get("public")));
    if (!own) {
      return BadInput(fmt::format("--public {}: is no public key; dslide key draw prints one",
                                  Printable(arguments.Get("public"))));
    }
  }
  const Result<MemberKey> key = keys->Allow(grant, own);
  DSLIDE_RETURN_IF_ERROR(key);
  PrintInvitation(*key, grant, keys->FileOf(grant.name), arguments.Positional().front());
  return {};
}

Status DrawBefore(const ParsedArguments& arguments) {
  const std::string& run = arguments.Positional().front();
  const std::string address = arguments.Get("scheduler");
  if (const std::string why = WhyNotDialable(address); !why.empty()) {
    return BadInput(fmt::format("--scheduler {}: {}", Printable(address), why));
  }
  if (RunKeys::Exist(run)) {
    return BadInput(fmt::format("{}: has keys already; dslide key list shows them", run));
  }
  Result<RunKeys> keys = RunKeys::OpenOrDraw(run, SecondsSince1970());
  DSLIDE_RETURN_IF_ERROR(keys);
  return keys->Publish(address);
}

Status ShowJoin(const ParsedArguments& arguments) {
  const Result<RunKeys> keys = KeysOf(arguments);
  DSLIDE_RETURN_IF_ERROR(keys);
  const Result<MemberKey> key = keys->KeyOf(arguments.Get("name"));
  DSLIDE_RETURN_IF_ERROR(key);
  if (key->scheduler.empty() || !key->scheduler_key) {
    return TryLater(fmt::format(
        "{}: its scheduler does not listen yet; it writes its address when it has read its data",
        arguments.Positional().front()));
  }
  fmt::print("{}\n", JoinString(*key));
  return {};
}

Status List(const ParsedArguments& arguments) {
  const Result<RunKeys> keys = KeysOf(arguments);
  DSLIDE_RETURN_IF_ERROR(keys);
  const int64_t now_s = SecondsSince1970();
  fmt::print("{:<9} {:<20} {:<9} {:<21} {:<21} {}\n", "role", "name", "key", "added", "expires",
             "members");
  for (const Grant& grant : keys->ring().grants()) {
    fmt::print("{:<9} {:<20} {:<9} {:<21} {:<21} {}\n", NameOf(grant.role), grant.name,
               ShortTextOf(grant.key), TimeText(grant.added_s),
               grant.quarantined_s != 0 ? "quarantined"
               : grant.ExpiredAt(now_s) ? "expired"
                                        : TimeText(grant.expires_s),
               grant.members == 0 ? "any" : std::to_string(grant.members));
  }
  return {};
}

Status Revoke(const ParsedArguments& arguments) {
  Result<RunKeys> keys = KeysOf(arguments);
  DSLIDE_RETURN_IF_ERROR(keys);
  return keys->Revoke(arguments.Get("name"));
}

Status Rotate(const ParsedArguments& arguments) {
  Result<RunKeys> keys = KeysOf(arguments);
  DSLIDE_RETURN_IF_ERROR(keys);
  const Result<int64_t> overlap = Duration("overlap", arguments.Get("overlap"));
  DSLIDE_RETURN_IF_ERROR(overlap);
  const int64_t now_s = SecondsSince1970();
  const std::string name = arguments.Get("name");
  const Result<MemberKey> key = keys->Rotate(name, now_s, now_s + *overlap);
  DSLIDE_RETURN_IF_ERROR(key);
  PrintInvitation(*key, keys->ring().grants().back(), keys->FileOf(name),
                  arguments.Positional().front());
  return {};
}

}  // namespace

int KeyInitCommand(int argc, char** argv) {
  CommandLine line(
      "dslide key init RUN --scheduler ADDRESS",
      "Draws a key of each role into RUN/keys, as the first start of a scheduler does, so "
      "that members can be given theirs before: the scheduler of RUN will use them.");
  line.Positional("RUN", "the run directory; it need not exist", 1, 1);
  line.Required("scheduler", "ADDRESS", "what members will dial, e.g. tcp://10.0.0.1:7700");
  return RunExecutable("dslide key init", line, argc, argv, DrawBefore);
}

int KeyJoinCommand(int argc, char** argv) {
  CommandLine line =
      RunLine("dslide key join RUN --name NAME",
              "Prints the join string of a key. It is a secret, unless the member has a key of its "
              "own.");
  line.Required("name", "NAME", "the key's name: server, worker, observer, operator, or another");
  return RunExecutable("dslide key join", line, argc, argv, ShowJoin);
}

int KeyAllowCommand(int argc, char** argv) {
  CommandLine line = RunLine("dslide key allow RUN --role ROLE --name NAME [options]",
                             "Lets a member join a run, also while it goes on, and prints its join "
                             "string, once the scheduler listens.");
  line.Required("role", "ROLE",
                "worker, server, observer (sees the status) or operator (commands)");
  line.Required("name", "NAME", "what the key is called in status and logs");
  line.Option("expires", "TIME", "for how long: 30d, 12h, 45m, 90s; for ever if not given");
  line.Option("members", "N", "members that may use the key at once; 0: any number", "0");
  line.Option("public", "KEY", "the public key of a member that ran dslide key draw");
  return RunExecutable("dslide key allow", line, argc, argv, Allow);
}

int KeyListCommand(int argc, char** argv) {
  const CommandLine line = RunLine("dslide key list RUN", "Lists the keys that may join a run.");
  return RunExecutable("dslide key list", line, argc, argv, List);
}

int KeyRevokeCommand(int argc, char** argv) {
  CommandLine line = RunLine("dslide key revoke RUN --name NAME",
                             "Takes back all keys of a name: their members are out at once.");
  line.Required("name", "NAME", "the key's name");
  return RunExecutable("dslide key revoke", line, argc, argv, Revoke);
}

int KeyRotateCommand(int argc, char** argv) {
  CommandLine line = RunLine("dslide key rotate RUN --name NAME [--overlap TIME]",
                             "Draws another key for a name and prints its join string. The old key "
                             "counts until TIME is over.");
  line.Required("name", "NAME", "the key's name");
  line.Option("overlap", "TIME", "for how long the old key counts: 1h, 30m, 90s", "1h");
  return RunExecutable("dslide key rotate", line, argc, argv, Rotate);
}

}  // namespace dslide
