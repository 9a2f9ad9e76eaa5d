// dslide checkpoint list and inspect: print the contents of manifests.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/config/stored_config.h"
#include "tools/dslide/checkpoint/checkpoint_commands.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

uint64_t RowsOf(const Manifest& manifest) {
  uint64_t rows = 0;
  for (const ManifestShard& shard : manifest.shards) rows += shard.rows;
  return rows;
}

uint64_t BytesOf(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const ManifestShard& shard : manifest.shards) bytes += shard.bytes;
  return bytes;
}

uint64_t FilesOf(const Manifest& manifest) {
  uint64_t files = 0;
  for (const ManifestShard& shard : manifest.shards) files += shard.files.size();
  return files;
}

// For people: the last epoch of which it has batches, from 1; 0: none.
uint32_t LastEpoch(const Manifest& manifest) {
  return manifest.done.empty() ? manifest.epoch : manifest.epoch + 1;
}

std::string EpochText(const Manifest& m) {
  if (LastEpoch(m) == 0) return "none has begun";
  return fmt::format("{}, {} of its batches done", LastEpoch(m),
                     m.done.empty() ? "all" : std::to_string(m.done.size()));
}

double Megabytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

OrderedJson JsonOf(const std::string& directory, const Manifest& m) {
  return {{"checkpoint", directory},
          {"run", fmt::format("{:016x}", m.run.value)},
          {"name", m.name},
          {"epoch", m.epoch},
          {"batches", m.batches},
          {"samples", m.samples},
          {"shards", m.shards.size()},
          {"files", FilesOf(m)},
          {"bytes", BytesOf(m)},
          {"rows", RowsOf(m)}};
}

Status List(const ParsedArguments& arguments) {
  const std::string path = arguments.Positional()[0];
  const Result<std::string> in = CheckpointDirectory(path);
  DSLIDE_RETURN_IF_ERROR(in);
  OrderedJson all = OrderedJson::array();
  const bool json = arguments.Has("json");
  const std::vector<std::string> names = CompleteCheckpoints(*in);
  if (!json && names.empty()) {
    fmt::print("{}: no complete checkpoint\n", *in);
    return {};
  }
  if (!json) {
    fmt::print("{:<20}{:>7}{:>12}{:>14}{:>8}{:>12}\n", "checkpoint", "epoch", "batches", "samples",
               "shards", "MB");
  }
  Status damaged;  // the first manifest that cannot be read; the others are still listed
  for (const std::string& name : names) {
    const std::string checkpoint = *in + "/" + name;
    const Result<Manifest> m = ReadManifest(checkpoint);
    if (!m.ok()) {
      if (damaged.ok()) damaged = Failed(m.error().message);
    } else if (json) {
      all.push_back(JsonOf(checkpoint, *m));
    } else {
      fmt::print("{:<20}{:>7}{:>12}{:>14}{:>8}{:>12.1f}\n", name, LastEpoch(*m), m->batches,
                 m->samples, m->shards.size(), Megabytes(BytesOf(*m)));
    }
  }
  if (json) fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  return damaged;
}

void PrintManifest(const std::string& directory, const Manifest& m, const ModelConfig& model) {
  const auto line = [](const char* name, const std::string& value) {
    fmt::print("{:<12}{}\n", name, value);
  };
  line("checkpoint", directory);
  line("run", fmt::format("{:016x}", m.run.value));
  line("epoch", EpochText(m));
  line("batches", std::to_string(m.batches));
  line("samples", fmt::format("{} ({} an epoch)", m.samples, m.train_samples));
  line("model", fmt::format("{}, {}, hidden {}", Plural(model.features, "feature"),
                            Plural(model.labels, "label"), HiddenText(model)));
  line("rows", std::to_string(RowsOf(m)));
  line("size", fmt::format("{:.1f} MB in {}", Megabytes(BytesOf(m)), Plural(FilesOf(m), "file")));
  size_t width = 12;
  for (const ManifestShard& shard : m.shards) {
    width = std::max({width, shard.directory.size() + 2, shard.server.size() + 2});
  }
  fmt::print("\n{:<{}}{:<{}}{:>12}{:>8}{:>12}\n", "shard", width, "server", width, "rows", "files",
             "MB");
  for (const ManifestShard& shard : m.shards) {
    fmt::print("{:<{}}{:<{}}{:>12}{:>8}{:>12.1f}\n", shard.directory, width, shard.server, width,
               shard.rows, shard.files.size(), Megabytes(shard.bytes));
  }
}

OrderedJson Detailed(const std::string& directory, const Manifest& m, const ModelConfig& model) {
  OrderedJson json = JsonOf(directory, m);
  json["train_samples"] = m.train_samples;
  json["ledger_position"] = m.ledger_position;
  json["model"] = {{"features", model.features},
                   {"labels", model.labels},
                   {"hidden", model.hidden},
                   {"dense", model.dense}};
  json["shards"] = OrderedJson::array();
  for (const ManifestShard& shard : m.shards) {
    OrderedJson files = OrderedJson::array();
    for (const ShardFile& file : shard.files) {
      files.push_back({{"name", file.name},
                       {"bytes", file.bytes},
                       {"xxh3", fmt::format("{:016x}", file.checksum)}});
    }
    json["shards"].push_back({{"directory", shard.directory},
                              {"server", shard.server},
                              {"rows", shard.rows},
                              {"bytes", shard.bytes},
                              {"files", std::move(files)}});
  }
  return json;
}

Status Inspect(const ParsedArguments& arguments) {
  const Result<std::string> directory = FindCheckpoint(arguments.Positional()[0]);
  DSLIDE_RETURN_IF_ERROR(directory);
  const Result<Manifest> manifest = ReadManifest(*directory);
  DSLIDE_RETURN_IF_ERROR(manifest);
  const Result<Config> config = ParseStoredConfig(manifest->config, *directory + "/manifest");
  DSLIDE_RETURN_IF_ERROR(config);
  if (arguments.Has("json")) {
    fmt::print("{}\n", Detailed(*directory, *manifest, config->model)
                           .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    PrintManifest(*directory, *manifest, config->model);
  }
  return {};
}

}  // namespace

int CheckpointListCommand(int argc, char** argv) {
  CommandLine line("dslide checkpoint list RUN_OR_DIR [--json]",
                   "Lists the complete checkpoints of a run, oldest first.");
  line.Positional("RUN_OR_DIR", "a run directory, or the directory of its checkpoints", 1, 1);
  line.Flag("json", "print a JSON array");
  return RunExecutable("dslide checkpoint list", line, argc, argv, List);
}

int CheckpointInspectCommand(int argc, char** argv) {
  CommandLine line("dslide checkpoint inspect CHECKPOINT [--json]",
                   "Prints what the manifest of a checkpoint says.");
  line.Positional("CHECKPOINT", "a checkpoint, or a run directory: its newest one", 1, 1);
  line.Flag("json", "print JSON, with every file");
  return RunExecutable("dslide checkpoint inspect", line, argc, argv, Inspect);
}

}  // namespace dslide
