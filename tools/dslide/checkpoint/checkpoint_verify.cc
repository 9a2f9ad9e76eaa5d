// dslide checkpoint verify and prune.
#include "server/storage/checkpoint_verify.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "tools/dslide/checkpoint/checkpoint_commands.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr uint32_t kMostKept = 1000000;

void PrintHealth(const std::string& directory, const CheckpointHealth& health, bool json) {
  if (json) {
    OrderedJson out = {
        {"checkpoint", directory}, {"good", health.damage.empty()},
        {"files", health.files},   {"bytes", health.bytes},
        {"rows", health.rows},     {"content_checksum", fmt::format("{:016x}", health.checksum)},
        {"damage", health.damage}};
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("{:<12}{}\n", "checkpoint", directory);
  fmt::print("{:<12}{} ({:.1f} MB)\n", "files", health.files,
             static_cast<double>(health.bytes) / (1 << 20));
  if (health.damage.empty()) {
    fmt::print("{:<12}{}\n", "rows", health.rows);
    fmt::print("{:<12}{:016x}\n", "content", health.checksum);
  }
  for (const std::string& line : health.damage) fmt::print("{:<12}{}\n", "damage", line);
}

Status Verify(const ParsedArguments& arguments) {
  const Result<std::string> directory = FindCheckpoint(arguments.Positional()[0]);
  DSLIDE_RETURN_IF_ERROR(directory);
  const Result<Manifest> manifest = ReadManifest(*directory);
  if (!manifest.ok()) return Failed(manifest.error().message);
  const CheckpointHealth health = VerifyCheckpoint(*directory, *manifest);
  PrintHealth(*directory, health, arguments.Has("json"));
  if (health.damage.empty()) return {};
  return Failed(
      fmt::format("{}: {}, listed above; copy the files again from the machine that wrote them, or "
                  "use an older "
                  "checkpoint",
                  *directory, Plural(health.damage.size(), "damaged part")));
}

Status Prune(const ParsedArguments& arguments) {
  const Result<uint32_t> keep = arguments.Number("keep", 1, kMostKept);
  DSLIDE_RETURN_IF_ERROR(keep);
  const Result<std::string> in = CheckpointDirectory(arguments.Positional()[0]);
  DSLIDE_RETURN_IF_ERROR(in);
  const size_t removed = PruneCheckpoints(*in, *keep);
  const size_t after = CompleteCheckpoints(*in).size();
  fmt::print("{} of {} removed from {}\n", removed, Plural(removed + after, "checkpoint"), *in);
  if (after > *keep) {
    return Failed(fmt::format("{}: {} cannot be removed; make the directory writable", *in,
                              Plural(after - *keep, "checkpoint")));
  }
  return {};
}

}  // namespace

int CheckpointVerifyCommand(int argc, char** argv) {
  CommandLine line(
      "dslide checkpoint verify CHECKPOINT [--json]",
      "Reads every file and row of a checkpoint, and names all that is damaged or missing (exit "
      "code 1). The checksum of the content does not depend on the number of servers that wrote "
      "it.");
  line.Positional("CHECKPOINT", "a checkpoint, or a run directory: its newest one", 1, 1);
  line.Flag("json", "print JSON");
  return RunExecutable("dslide checkpoint verify", line, argc, argv, Verify);
}

int CheckpointPruneCommand(int argc, char** argv) {
  CommandLine line("dslide checkpoint prune RUN_OR_DIR --keep N",
                   "Removes all but the newest complete checkpoints of a run, and the unfinished "
                   "checkpoints that are older.");
  line.Positional("RUN_OR_DIR", "a run directory, or the directory of its checkpoints", 1, 1);
  line.Required("keep", "N", "number of checkpoints that stay");
  return RunExecutable("dslide checkpoint prune", line, argc, argv, Prune);
}

}  // namespace dslide
