#include "common/checkpoint/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "common/base/nearest.h"
#include "common/checkpoint/file_checksum.h"
#include "common/checkpoint/layout.h"
#include "common/data/whole_file.h"
#include "manifest_generated.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

std::string Text(const flatbuffers::String* s) { return s == nullptr ? "" : s->str(); }

constexpr size_t kMostShardFiles = 1 << 17;  // of RocksDB's 64 MB: 8 TB
constexpr uint64_t kMostShardBytes = uint64_t{1} << 50;

// A trailer follows the FlatBuffer: its XXH3, least byte first, and these 8 bytes. The FlatBuffer
// says that the trailer follows, so that no single byte that changes makes a manifest look like one
// of an earlier version, which has no checksum.
static_assert(std::endian::native == std::endian::little);
constexpr std::string_view kChecksumMark = "DSLMsum\n";
constexpr size_t kTrailerBytes = sizeof(uint64_t) + kChecksumMark.size();

std::string TrailerOf(std::string_view buffer) {
  const uint64_t checksum =
      ChecksumOf({reinterpret_cast<const uint8_t*>(buffer.data()), buffer.size()});
  std::string trailer(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  return trailer += kChecksumMark;
}

// The message in a manifest file, which it points into; null: the file is damaged.
const wire::Manifest* StoredIn(std::string_view file) {
  const bool has_checksum = file.size() >= kTrailerBytes && file.ends_with(kChecksumMark);
  const std::string_view buffer = file.substr(0, file.size() - (has_checksum ? kTrailerBytes : 0));
  if (has_checksum && file.substr(buffer.size()) != TrailerOf(buffer)) return nullptr;
  const auto* data = reinterpret_cast<const uint8_t*>(buffer.data());
  flatbuffers::Verifier verifier(data, buffer.size());
  if (buffer.size() < 8 || !wire::VerifyManifestBuffer(verifier)) return nullptr;
  const wire::Manifest* stored = wire::GetManifest(data);
  return stored->checksummed() == has_checksum ? stored : nullptr;
}

}  // namespace

std::string WhyNoShard(const ManifestShard& shard) {
  if (!IsPlainFileName(shard.directory)) {
    return fmt::format("{} is not the name of a shard", Printable(shard.directory));
  }
  if (shard.server.find('\0') != std::string::npos) {
    return fmt::format("{} is not the name of a server", Printable(shard.server));
  }
  if (shard.files.size() > kMostShardFiles) {
    return fmt::format("{} files are too many for a shard", shard.files.size());
  }
  uint64_t bytes = 0;
  for (const ShardFile& file : shard.files) {
    if (!IsPlainFileName(file.name)) {
      return fmt::format("{} is not the name of a file in a shard", Printable(file.name));
    }
    if (file.bytes > kMostShardBytes || bytes > kMostShardBytes) {
      return fmt::format("{}: {} bytes are too many for a shard", file.name, file.bytes);
    }
    bytes += file.bytes;
  }
  return "";
}

std::vector<std::string> CompleteCheckpoints(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (IsCheckpointName(entry.path().filename()) && HasManifest(entry.path())) {
      found.push_back(entry.path().filename());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

void RemoveCheckpoint(const std::string& directory) {
  std::error_code ignored;
  // Of a link only the link goes: the checkpoint that it names is somebody else's.
  if (fs::is_symlink(directory, ignored)) {
    fs::remove(directory, ignored);
    return;
  }
  fs::remove(fs::path(directory) / kManifestName, ignored);
  fs::remove_all(directory, ignored);
}

Status WriteManifest(const std::string& directory, const Manifest& manifest) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::Shard>> shards;
  for (const ManifestShard& s : manifest.shards) {
    std::vector<flatbuffers::Offset<wire::File>> files;
    for (const ShardFile& f : s.files) {
      files.push_back(wire::CreateFileDirect(builder, f.name.c_str(), f.bytes, f.checksum));
    }
    shards.push_back(wire::CreateShardDirect(builder, s.directory.c_str(), s.server.c_str(), s.rows,
                                             s.bytes, &files));
  }
  std::vector<wire::DoneBatch> done;
  for (const DoneBatch& b : manifest.done) done.emplace_back(b.unit, b.index);
  const auto root = wire::CreateManifestDirect(
      builder, kManifestFormat, manifest.run.value, manifest.name.c_str(), manifest.config.c_str(),
      manifest.epoch, manifest.batches, manifest.samples, manifest.train_samples, &done, &shards,
      manifest.ledger_position, manifest.slot_shard.empty() ? nullptr : &manifest.slot_shard,
      manifest.train_checksum, manifest.preprocessor, manifest.shape_epoch, manifest.written_s,
      /*checksummed=*/true);
  wire::FinishManifestBuffer(builder, root);

  const std::string path = fmt::format("{}/{}", directory, kManifestName);
  std::string file(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  file += TrailerOf(file);
  DSLIDE_RETURN_IF_ERROR(WriteWholeFile(path, file));
  // Its parent too: the directory may be new (servers with their own disks), or renamed.
  return SyncDirectory(fs::absolute(directory).parent_path());
}

bool HasManifest(const std::string& directory) {
  std::error_code error;
  return fs::exists(fs::path(directory) / kManifestName, error);
}

Result<Manifest> ReadManifest(const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, kManifestName);
  const Result<std::string> bytes = ReadWholeFile(path);
  if (!bytes.ok()) {
    return BadInput(bytes.error().message + "; is it a checkpoint directory?");
  }
  const wire::Manifest* const found = StoredIn(*bytes);
  if (found == nullptr) {
    return BadInput(fmt::format(
        "{}: damaged ({} bytes); move that directory away to resume from the previous checkpoint",
        path, bytes->size()));
  }
  const wire::Manifest& stored = *found;
  if (stored.format() != kManifestFormat) {
    return BadInput(fmt::format("{}: format {}, this program reads format {}", path,
                                stored.format(), kManifestFormat));
  }
  if (const std::string name = Text(stored.name()); !name.empty() && !IsPlainFileName(name)) {
    return BadInput(fmt::format("{}: damaged or forged: {} is not the name of a checkpoint", path,
                                Printable(name)));
  }
  Manifest manifest;
  manifest.run = {stored.run_id()};
  manifest.name = Text(stored.name());
  manifest.config = Text(stored.config());
  if (manifest.config.find('\0') != std::string::npos) {
    return BadInput(fmt::format("{}: damaged or forged: its configuration is no text", path));
  }
  manifest.epoch = stored.epoch();
  manifest.batches = stored.batches();
  manifest.samples = stored.samples();
  manifest.train_samples = stored.train_samples();
  manifest.ledger_position = stored.ledger_position();
  manifest.train_checksum = stored.train_checksum();
  manifest.preprocessor = stored.preprocessor();
  manifest.shape_epoch = stored.shape_epoch();
  manifest.written_s = stored.written_s();
  if (stored.done() != nullptr) {
    for (const wire::DoneBatch* b : *stored.done())
      manifest.done.push_back({b->unit(), b->index()});
  }
  if (stored.shards() != nullptr) {
    for (const wire::Shard* s : *stored.shards()) {
      ManifestShard shard{Text(s->directory()), Text(s->server()), s->rows(), s->bytes(), {}};
      if (s->files() != nullptr) {
        for (const wire::File* f : *s->files()) {
          shard.files.push_back({Text(f->name()), f->bytes(), f->checksum()});
        }
      }
      if (const std::string why = WhyNoShard(shard); !why.empty()) {
        return BadInput(fmt::format("{}: damaged or forged: {}", path, why));
      }
      manifest.shards.push_back(std::move(shard));
    }
  }
  if (stored.slot_shard() != nullptr) {
    manifest.slot_shard.assign(stored.slot_shard()->begin(), stored.slot_shard()->end());
    const bool known = std::ranges::all_of(
        manifest.slot_shard, [&](uint16_t shard) { return shard < manifest.shards.size(); });
    if (!known) {
      return BadInput(fmt::format("{}: damaged: a slot is in a shard that there is not", path));
    }
  }
  return manifest;
}

Result<std::string> FindCheckpoint(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return BadInput(fmt::format("{}: {}; give a checkpoint or a directory of them", path,
                                fs::exists(path, error) ? "is no directory" : "no such directory"));
  }
  if (HasManifest(path)) return path;
  for (const std::string& in : {path, (fs::path(path) / kCheckpointsName).string()}) {
    const std::vector<std::string> complete = CompleteCheckpoints(in);
    if (!complete.empty()) return in + "/" + complete.back();
  }
  if (fs::is_directory(fs::path(path) / kCheckpointsName, error)) {
    return BadInput(fmt::format(
        "{}: the run has no complete checkpoint; while it runs, dslide run checkpoint {} makes one",
        path, path));
  }
  return BadInput(
      fmt::format("{}: holds no complete checkpoint (a directory step-* with a manifest)", path));
}

Result<std::string> CheckpointDirectory(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return BadInput(fmt::format("{}: {}; give a run or its directory of checkpoints", path,
                                fs::exists(path, error) ? "is no directory" : "no such directory"));
  }
  const std::string in_run = (fs::path(path) / kCheckpointsName).string();
  for (const std::string& in : {path, in_run}) {
    if (!CompleteCheckpoints(in).empty()) return in;
  }
  return fs::is_directory(in_run, error) ? in_run : path;
}

size_t PruneCheckpoints(const std::string& directory, size_t keep,
                        const std::vector<std::string>& held) {
  const std::vector<std::string> complete = CompleteCheckpoints(directory);
  if (keep == 0 || complete.empty()) return 0;
  const std::string oldest_kept = complete[complete.size() - std::min(keep, complete.size())];
  std::error_code error;
  std::vector<fs::path> doomed;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (IsCheckpointName(name) && name < oldest_kept && std::ranges::count(held, name) == 0)
      doomed.push_back(entry.path());
  }
  size_t removed = 0;
  for (const fs::path& path : doomed) {
    const bool complete_before = HasManifest(path);
    RemoveCheckpoint(path);
    removed += complete_before && !HasManifest(path);
  }
  return removed;
}

}  // namespace dslide
