#include "server/storage/checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "common/base/plural.h"
#include "common/checkpoint/file_checksum.h"
#include "common/checkpoint/layout.h"
#include "common/math/kernels.h"
#include "server/model/lsh/neuron_index.h"
#include "server/storage/shard_directory.h"
#include "server/storage/stored_keys.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr LayerKind kLayers[] = {LayerKind::kInput, LayerKind::kOutput};
constexpr char kRemedy[] = "copy it again from where it was written, or use an older checkpoint";

// Checks that a shard's files exist with the sizes in the manifest. Their content is checked when
// it is read.
Status CheckFiles(const std::string& shard, const ManifestShard& listed) {
  for (const ShardFile& file : listed.files) {
    const std::string path = shard + "/" + file.name;
    std::error_code error;
    const uint64_t bytes = fs::file_size(path, error);
    if (error) return BadInput(fmt::format("{}: {}; {}", path, error.message(), kRemedy));
    if (bytes != file.bytes) {
      return BadInput(fmt::format("{}: {} bytes, the checkpoint's manifest says {}; {}", path,
                                  bytes, file.bytes, kRemedy));
    }
  }
  return {};
}

// Names of the shards of the latest plan in a directory, ascending.
std::vector<std::string> LatestShards(const std::string& directory) {
  std::set<std::string> names;
  uint32_t latest = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    const auto version = PlanVersionOfShard(name);
    if (!version || *version < latest) continue;
    if (*version > latest) names.clear();
    latest = *version;
    names.insert(name);
  }
  return {names.begin(), names.end()};
}

// The sizes that a stored row may have. Only the first `content` bytes are part of the model; the
// rest is the progress of the hash tables' upkeep.
struct StoredSizes {
  StoredSizes(const Config& config, LayerKind kind) {
    const Layer layer(kind, config, SlotMap(0, config.cluster.slots, {}), Purpose::kInference,
                      BestKernels());
    const bool indexed = kind == LayerKind::kOutput && HasNeuronIndex(config.model);
    content = layer.RowBytes() + (indexed ? NeuronIndex::StoredBytes(config.hash, true) : 0);
    unsettled = layer.RowBytes() + (indexed ? NeuronIndex::StoredBytes(config.hash, false) : 0);
    without_mass = indexed ? content : layer.RowBytesWithoutMass();
  }
  bool Allow(size_t bytes) const {
    return bytes == content || bytes == unsettled || bytes == without_mass;
  }

  size_t content;
  size_t unsettled;  // see neuron_index.h
  size_t without_mass;
};

uint64_t RowChecksum(std::string_view key, std::span<const uint8_t> value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(key.data());
  return ChecksumOf(value, ChecksumOf({bytes, key.size()}));
}

// The row key at a cursor. Error: the key has no row key's form, though it lies among row keys.
Result<StoredRowKey> RowAt(const RowDatabase::Cursor& at, const std::string& directory) {
  const auto key = DecodeRowKey(at.key());
  if (key) return *key;
  return BadInput(
      fmt::format("{}: has a key of {} bytes; not a checkpoint", directory, at.key().size()));
}

bool AmongRows(const RowDatabase::Cursor& at, LayerKind layer) {
  return at.Valid() && !at.key().empty() && at.key()[0] == static_cast<char>(layer);
}

// Adds the slots that have rows of a layer in the database; seeks from one slot to the next.
Status FindSlots(const RowDatabase& database, LayerKind layer, std::set<SlotId>* slots) {
  RowDatabase::Cursor at = database.NewCursor(RowDatabase::Reading::kPoints);
  at.Seek(View(EncodeRowKey({layer, {0}, 0})));
  while (AmongRows(at, layer)) {
    const auto key = RowAt(at, database.directory());
    DSLIDE_RETURN_IF_ERROR(key);
    slots->insert(key->slot);
    at.Seek(View(EncodeRowKey({layer, {key->slot.value + 1}, 0})));
  }
  return at.status();
}

}  // namespace

// Number of rows found, by layer and slot.
class CheckpointShards::RowCounts {
 public:
  explicit RowCounts(uint32_t slots) {
    for (auto& layer : counts_) layer.resize(slots);
  }
  uint32_t& At(LayerKind layer, SlotId slot) {
    return counts_[static_cast<size_t>(layer)][slot.value];
  }
  uint32_t At(LayerKind layer, SlotId slot) const {
    return counts_[static_cast<size_t>(layer)][slot.value];
  }

 private:
  std::array<std::vector<uint32_t>, 2> counts_;
};

Status CheckpointShards::Add(const std::string& name, const ManifestShard* listed) {
  Shard shard{directory_ + "/" + name, nullptr};
  if (listed != nullptr) DSLIDE_RETURN_IF_ERROR(CheckFiles(shard.directory, *listed));
  auto database = RowDatabase::OpenForReading(shard.directory);
  if (!database.ok()) return BadInput(database.error().message);
  shard.database = std::move(*database);
  shards_.push_back(std::move(shard));
  return {};
}

Result<std::shared_ptr<const CheckpointShards>> CheckpointShards::Open(
    const std::string& directory) {
  const auto shards = std::make_shared<CheckpointShards>();
  shards->directory_ = directory;
  std::error_code error;
  if (HasManifest(directory)) {
    const Result<Manifest> manifest = ReadManifest(directory);
    DSLIDE_RETURN_IF_ERROR(manifest);
    for (const ManifestShard& shard : manifest->shards) {
      if (fs::is_directory(directory + "/" + shard.directory, error)) {
        DSLIDE_RETURN_IF_ERROR(shards->Add(shard.directory, &shard));
      } else {
        if (!shards->absent_.empty()) shards->absent_ += ", ";
        shards->absent_ += shard.directory + " of " + shard.server;
      }
    }
  } else {
    for (const std::string& name : LatestShards(directory)) {
      DSLIDE_RETURN_IF_ERROR(shards->Add(name, nullptr));
    }
  }
  if (shards->shards_.empty()) {
    return BadInput(
        fmt::format("{}: no shard-* directory here; copy the shards from the machines "
                    "that wrote them",
                    directory));
  }
  DSLIDE_RETURN_IF_ERROR(shards->ReadRecords());
  return std::shared_ptr<const CheckpointShards>(shards);
}

Status CheckpointShards::ReadRecords() {
  for (const Shard& shard : shards_) {
    RowDatabase::Cursor at = shard.database->NewCursor(RowDatabase::Reading::kPoints);
    for (at.Seek(View(EncodeRecordKey(0))); at.Valid(); at.Next()) {
      const auto value = at.value();
      records_.emplace_back(value.begin(), value.end());
    }
    if (const Status read = at.status(); !read.ok()) return BadInput(read.error().message);
  }
  return {};
}

Result<CheckpointStore::Base> CheckpointShards::BaseFor(std::span<const SlotId> slots,
                                                        uint64_t rows) const {
  CheckpointStore::Base best;
  size_t most = 0;
  bool worn = false;
  for (const Shard& shard : shards_) {
    std::set<SlotId> there;
    for (const LayerKind layer : kLayers) {
      DSLIDE_RETURN_IF_ERROR(FindSlots(*shard.database, layer, &there));
    }
    const auto common = static_cast<size_t>(
        std::ranges::count_if(slots, [&](SlotId slot) { return there.contains(slot); }));
    if (common > most) {
      most = common;
      best = {shard.directory, {there.begin(), there.end()}};
      worn = shard.database->IsWorn(rows);
    }
  }
  return worn ? CheckpointStore::Base() : best;
}

// Loads a shard's rows of a layer's slots. Neighbouring slots are read in one pass.
Result<uint64_t> CheckpointShards::LoadLayer(const Shard& shard, const Layer& layer,
                                             Executor* executor, const std::atomic<bool>* cancelled,
                                             RowCounts* counts) const {
  const std::span<const SlotId> owned = layer.map().owned();
  RowDatabase::Cursor at = shard.database->NewCursor(RowDatabase::Reading::kAhead);
  uint64_t rows = 0;
  size_t next = 0;
  bool jump = true;
  while (next < owned.size()) {
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
      return TryLater(shard.directory + ": reading was given up");
    }
    if (jump) at.Seek(View(EncodeRowKey({layer.kind(), owned[next], 0})));
    if (!AmongRows(at, layer.kind())) break;
    const auto key = RowAt(at, shard.directory);
    DSLIDE_RETURN_IF_ERROR(key);
    while (next < owned.size() && owned[next] < key->slot) ++next;
    jump = next < owned.size() && owned[next] != key->slot;
    if (jump || next == owned.size()) continue;
    const Status loaded = executor->LoadRow(*key, at.value());
    if (!loaded.ok()) return BadInput(shard.directory + ": " + loaded.error().message);
    counts->At(key->layer, key->slot)++;
    rows++;
    at.Next();
  }
  if (const Status read = at.status(); !read.ok()) return BadInput(read.error().message);
  return rows;
}

Status CheckpointShards::CheckComplete(const SlotMap& map, LayerKind layer,
                                       const RowCounts& counts) const {
  for (const SlotId slot : map.owned()) {
    const uint32_t found = counts.At(layer, slot);
    if (found == map.SlotSize(slot)) continue;
    return BadInput(fmt::format(
        "{}: slot {} has {} of {} rows in the {} here{}; copy all shard-* directories of "
        "that checkpoint here",
        directory_, slot.value, found, map.SlotSize(slot), Plural(shards_.size(), "shard"),
        absent_.empty() ? "" : ", without " + absent_));
  }
  return {};
}

Status CheckpointShards::Restore(Executor* executor, const CheckpointStore::Base& base,
                                 const std::atomic<bool>* cancelled) const {
  const Layer* layers[] = {&executor->input().layer(), &executor->output().layer()};
  RowCounts counts(layers[0]->map().slots());
  uint64_t elsewhere = 0;  // rows that are not in `base`
  for (const Shard& shard : shards_) {
    for (const Layer* layer : layers) {
      const auto rows = LoadLayer(shard, *layer, executor, cancelled, &counts);
      DSLIDE_RETURN_IF_ERROR(rows);
      if (shard.directory != base.directory) elsewhere += *rows;
    }
  }
  for (const Layer* layer : layers) {
    DSLIDE_RETURN_IF_ERROR(CheckComplete(layer->map(), layer->kind(), counts));
  }
  if (const Status done = executor->FinishLoad(records_); !done.ok()) {
    return BadInput(directory_ + ": " + done.error().message);
  }
  if (!base.directory.empty() && elsewhere == 0) executor->AssumeStored();
  return {};
}

Result<CheckpointShards::Content> CheckpointShards::CheckContent(const Config& config) const {
  const uint32_t slots = config.cluster.slots;
  const std::vector<SlotId> all = AllSlots(config.cluster);
  RowCounts counts(slots);
  const SlotMap maps[] = {
      SlotMap(InputRowCount(config.model), slots, InputSlots(config.cluster), all),
      SlotMap(config.model.labels, slots, OutputSlots(config.cluster), all)};
  const StoredSizes sizes[] = {{config, LayerKind::kInput}, {config, LayerKind::kOutput}};
  Content content;
  for (const Shard& shard : shards_) {
    RowDatabase::Cursor at = shard.database->NewCursor(RowDatabase::Reading::kAhead);
    at.Seek(View(EncodeRowKey({LayerKind::kInput, {0}, 0})));
    for (; AmongRows(at, LayerKind::kInput) || AmongRows(at, LayerKind::kOutput); at.Next()) {
      const auto key = RowAt(at, shard.directory);
      DSLIDE_RETURN_IF_ERROR(key);
      const auto layer = static_cast<size_t>(key->layer);
      if (key->slot.value >= slots || key->row >= maps[layer].SlotSize(key->slot) ||
          !sizes[layer].Allow(at.value().size())) {
        return BadInput(
            fmt::format("{}: row {} of slot {} does not fit the model ({} bytes, expected {}); {}",
                        shard.directory, key->row, key->slot.value, at.value().size(),
                        sizes[layer].content, kRemedy));
      }
      counts.At(key->layer, key->slot)++;
      content.checksum += RowChecksum(
          at.key(), at.value().first(std::min(at.value().size(), sizes[layer].content)));
      content.rows++;
    }
    if (const Status read = at.status(); !read.ok()) return BadInput(read.error().message);
  }
  for (const LayerKind layer : kLayers) {
    DSLIDE_RETURN_IF_ERROR(CheckComplete(maps[static_cast<size_t>(layer)], layer, counts));
  }
  return content;
}

}  // namespace dslide
