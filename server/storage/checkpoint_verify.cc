#include "server/storage/checkpoint_verify.h"

#include <fmt/core.h>

#include <filesystem>

#include "common/checkpoint/file_checksum.h"
#include "common/checkpoint/stored_preprocessor.h"
#include "common/config/stored_config.h"
#include "server/storage/checkpoint.h"

namespace dslide {
namespace {

// Empty: the file is unchanged.
std::string WhatIsWrong(const std::string& path, const ShardFile& file) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) return fmt::format("{}: {}", path, error.message());
  if (bytes != file.bytes) {
    return fmt::format("{}: {} bytes, the checkpoint's manifest says {}", path, bytes, file.bytes);
  }
  const Result<uint64_t> checksum = FileChecksum(path);
  if (!checksum.ok()) return checksum.error().message;
  if (*checksum == file.checksum) return "";
  return fmt::format("{}: damaged: its checksum is {:016x}, the checkpoint's manifest says {:016x}",
                     path, *checksum, file.checksum);
}

void VerifyFiles(const std::string& directory, const Manifest& manifest, CheckpointHealth* health) {
  for (const ManifestShard& shard : manifest.shards) {
    for (const ShardFile& file : shard.files) {
      health->files++;
      health->bytes += file.bytes;
      const std::string path = fmt::format("{}/{}/{}", directory, shard.directory, file.name);
      if (std::string wrong = WhatIsWrong(path, file); !wrong.empty()) {
        health->damage.push_back(std::move(wrong));
      }
    }
  }
}

}  // namespace

CheckpointHealth VerifyCheckpoint(const std::string& directory, const Manifest& manifest) {
  CheckpointHealth health;
  VerifyFiles(directory, manifest, &health);
  const auto preprocessor = LoadPreprocessorOf(directory, manifest.preprocessor);
  if (!preprocessor.ok()) health.damage.push_back(preprocessor.error().message);
  if (!health.damage.empty()) return health;
  const Result<Config> config = ParseStoredConfig(manifest.config, directory + "/manifest");
  if (!config.ok()) {
    health.damage.push_back(config.error().message);
    return health;
  }
  const auto shards = CheckpointShards::Open(directory);
  const auto content = shards.ok() ? (*shards)->CheckContent(*config)
                                   : Result<CheckpointShards::Content>(shards.error());
  if (!content.ok()) {
    health.damage.push_back(content.error().message);
    return health;
  }
  health.rows = content->rows;
  health.checksum = content->checksum;
  return health;
}

}  // namespace dslide
