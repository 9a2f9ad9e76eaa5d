// The manifest of a checkpoint, and finding and removing the checkpoints of a directory
// (common/checkpoint/layout.h has the names).
//
// The manifest is written last and atomically (FlatBuffer, schema/manifest.fbs, with a checksum
// behind it): a directory without one is not a checkpoint. This is the only interface to the stored
// manifest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/checkpoint/shard_file.h"

namespace dslide {

constexpr uint32_t kManifestFormat = 3;

struct ManifestShard {
  std::string directory;  // within the checkpoint
  std::string server;
  uint64_t rows = 0;
  uint64_t bytes = 0;  // of all files
  std::vector<ShardFile> files;
};

// Why no server writes such a shard: "" if one could. Servers say what they have written, and a
// manifest may come from a stranger: names that lead out of the checkpoint, or files without end.
std::string WhyNoShard(const ManifestShard& shard);

struct DoneBatch {
  uint32_t unit = 0;
  uint32_t index = 0;
  bool operator==(const DoneBatch&) const = default;
};

struct Manifest {
  RunId run;
  std::string name;
  std::string config;  // effective configuration, INI text
  uint32_t epoch = 0;  // pass in progress, from 0; equal to train.epochs when training is finished
  uint64_t batches = 0;  // counted, over all epochs
  uint64_t samples = 0;
  uint64_t train_samples = 0;
  std::vector<DoneBatch> done;  // counted batches of `epoch`
  std::vector<ManifestShard> shards;
  uint64_t ledger_position = 0;      // entries of the ledger when the checkpoint was cut
  std::vector<uint16_t> slot_shard;  // [slots] index into shards; empty: unknown
  uint64_t train_checksum = 0;       // of the training samples (common/data/checksum.h); 0: unknown
  uint64_t preprocessor = 0;  // checksum of its file (layout.h); 0: the model's samples are numbers
  uint32_t shape_epoch = 0;   // ModelShape::epoch of the plan: from 1, unlike `epoch`
  uint64_t written_s = 0;     // seconds since 1970; 0: unknown
};

// Writes `directory`/manifest: temporary file, fsync, rename, fsync of the directory.
Status WriteManifest(const std::string& directory, const Manifest& manifest);

bool HasManifest(const std::string& directory);

// Errors (kBadInput) name the file and say whether it is missing, damaged, of another format, or
// names files outside of the checkpoint. A manifest of an earlier version has no checksum: damage
// to it is found only if it makes the manifest invalid.
Result<Manifest> ReadManifest(const std::string& directory);

// `path` if it is a checkpoint itself, otherwise the newest complete checkpoint in it.
Result<std::string> FindCheckpoint(const std::string& path);

// The directory of checkpoints of `path`: a run directory, or that directory itself.
Result<std::string> CheckpointDirectory(const std::string& path);

// Removes all but the newest `keep` complete checkpoints in `directory`, and incomplete ones older
// than those, but those named in `held`. Returns how many complete ones were removed. REQUIRES
// keep > 0.
size_t PruneCheckpoints(const std::string& directory, size_t keep,
                        const std::vector<std::string>& held = {});

// Names of the complete checkpoints in `directory`, oldest first.
std::vector<std::string> CompleteCheckpoints(const std::string& directory);

// Removes a checkpoint's directory, its manifest first, so that an interrupted removal leaves no
// checkpoint.
void RemoveCheckpoint(const std::string& directory);

}  // namespace dslide
