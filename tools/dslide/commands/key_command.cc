// dslide key COMMAND: who may join an encrypted run, and a key of one's own.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>

#include "common/app/executable.h"
#include "common/security/member_key.h"
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/keys/key_commands.h"

namespace dslide {
namespace {

Status Generate(const ParsedArguments& arguments) {
  const std::string path = arguments.Get("output");
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    return BadInput(fmt::format("{}: exists; it may hold a key, so name another file", path));
  }
  const KeyPair keys = DrawKeyPair();
  DSLIDE_RETURN_IF_ERROR(
      WriteKeyFile(path, {"", std::nullopt, keys.secret_key}, "A key drawn by dslide key draw"));
  fmt::print("{}\n", TextOf(keys.public_key));
  fmt::print(stderr,
             "the secret is in {} and stays there; whoever runs the scheduler lets it join by\n"
             "  dslide key allow RUN --role worker --name NAME --public {}\n",
             path, TextOf(keys.public_key));
  return {};
}

int DrawCommand(int argc, char** argv) {
  CommandLine line("dslide key draw --output FILE",
                   "Draws a key pair: the secret goes into a file, the public key is printed.");
  line.Required("output", "FILE", "the key file");
  return RunExecutable("dslide key draw", line, argc, argv, Generate);
}

constexpr Command kKeyCommands[] = {
    {"init", KeyInitCommand, "draw the keys of a run before its scheduler starts"},
    {"join", KeyJoinCommand, "print the join string of a key"},
    {"allow", KeyAllowCommand, "let a member join, by a new key or by its own"},
    {"list", KeyListCommand, "list the keys of a run"},
    {"revoke", KeyRevokeCommand, "take a key back: its members are out at once"},
    {"rotate", KeyRotateCommand, "replace a key; the old one counts for a while"},
    {"draw", DrawCommand, "draw a key of one's own"},
};

}  // namespace

int KeyCommand(int argc, char** argv) { return RunCommand("dslide key", kKeyCommands, argc, argv); }

int OldKeygenCommand(int argc, char** argv) {
  return RunOldName("dslide keygen", "dslide key draw", DrawCommand, argc, argv);
}

}  // namespace dslide
