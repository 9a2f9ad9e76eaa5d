// An executor's state: to a checkpoint, and from one.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/failpoint.h"
#include "server/executor/executor.h"

namespace dslide {
namespace {

Error DoesNotFit(const ExecutorRecord& record) {
  return BadInput(fmt::format(
      "the record of executor {} does not fit the model; the checkpoint is damaged or of another "
      "model",
      record.executor));
}

}  // namespace

void Executor::BeginSnapshot(SnapshotSink* sink) {
  DSLIDE_CHECK(purpose_ == Purpose::kTraining);
  if (snapshot_in_progress()) AbortSnapshot();
  applied_.Merge();
  snapshot_.emplace(sink, local_index_, Record().Encode(), &input_, &output_);
  CheckInvariants();
}

bool Executor::AdvanceSnapshot(uint32_t rows) {
  thread_.CheckInDebugBuild();
  return snapshot_in_progress() && snapshot_->Advance(rows);
}

void Executor::AbortSnapshot() {
  if (snapshot_) snapshot_->Abort();
  snapshot_.reset();
  CheckInvariants();
}

ExecutorRecord Executor::Record() {
  ExecutorRecord record;
  record.executor = cluster_index_;
  record.slots = output_.layer().map().Layout();
  record.committed = committed_;
  if (output_.tables() != nullptr) {
    record.hash = output_.tables()->Position();
    record.hashing = output_.hashing();
  }
  record.popular = output_.popular().Save();
  record.applied = applied_.groups();
  return record;
}

Status Executor::LoadRow(const StoredRowKey& key, std::span<const uint8_t> value) {
  if (PassFailpoint(Failpoint::kServerMidRestore)) return Failed("failpoint server.mid-restore");
  thread_.CheckInDebugBuild();
  const bool is_output = key.layer == LayerKind::kOutput;
  Layer& layer = is_output ? output_.layer() : input_.layer();
  const auto refuse = [&](const char* why) {
    return BadInput(fmt::format("{} row {} of slot {} {}", is_output ? "output" : "input", key.row,
                                key.slot.value, why));
  };
  if (!layer.map().Owns(key.slot) || key.row >= layer.map().SlotSize(key.slot)) {
    return refuse("does not fit the model: it has no place here");
  }
  if (value.size() < layer.RowBytes()) {
    return refuse("does not fit the model: it is too short");
  }
  const uint32_t local = layer.map().LocalRow(key.slot, key.row);
  const std::span<const uint8_t> rest = value.subspan(layer.RowBytes());
  if (is_output && output_.tables() != nullptr) {
    if (!Loader().Load(local, rest)) {
      return refuse("does not fit the model: these are not its hash codes");
    }
  } else if (!rest.empty()) {
    return refuse("does not fit the model: it is too long");
  }
  layer.LoadRow(local, value.data());
  return {};
}

HashStateLoader& Executor::Loader() {
  const HashTables& tables = output_.tables()->tables();
  if (loader_ == nullptr) {
    loader_ = std::make_unique<HashStateLoader>(tables.size(), tables.rows());
  }
  return *loader_;
}

Status Executor::FinishLoad(std::span<const std::string> bytes) {
  std::vector<ExecutorRecord> records;
  for (const std::string& each : bytes) {
    Result<ExecutorRecord> record = ExecutorRecord::Decode(each);
    DSLIDE_RETURN_IF_ERROR(record);
    records.push_back(std::move(*record));
  }
  if (purpose_ == Purpose::kInference) {
    DSLIDE_RETURN_IF_ERROR(FinishTables(records, nullptr));
    if (output_.tables() != nullptr) output_.tables()->CatchUp();
    loader_.reset();
    return {};
  }
  DSLIDE_RETURN_IF_ERROR(TakeApplied(records));
  // Of no slots there is nothing to go on with.
  if (const std::vector<SlotId> layout = output_.layer().map().Layout(); !layout.empty()) {
    for (const ExecutorRecord& record : records) {
      if (record.slots == layout) return GoOnFrom(record, records);
    }
  }
  return FinishTables(records, nullptr);
}

// What was loaded goes into the hash tables. Their functions are those of `own`, the record that
// this executor goes on from, or else of the latest round that hashed any of its slots.
Status Executor::FinishTables(std::span<const ExecutorRecord> records, const ExecutorRecord* own) {
  if (output_.tables() == nullptr) return {};
  const SlotMap& map = output_.layer().map();
  HashChoice chosen{0, config_.hash.k};
  std::vector<HashChoice> of_slot(map.slots(), chosen);
  for (const ExecutorRecord& record : records) {
    const HashChoice theirs =
        record.hashing.k == 0 ? HashChoice{0, config_.hash.k} : record.hashing;
    if (!output_.Allows(theirs)) return DoesNotFit(record);
    for (const SlotId slot : record.slots) {
      if (!map.Owns(slot)) continue;
      of_slot[slot.value] = theirs;
      if (own == nullptr && theirs.round > chosen.round) chosen = theirs;
    }
    if (&record == own) chosen = theirs;
  }
  if (chosen != output_.hashing()) output_.UseHashing(chosen);
  LiveTables& tables = *output_.tables();
  if (own != nullptr && !tables.Fits(*own->hash)) return DoesNotFit(*own);
  const auto wrong = Loader().Finish(
      own != nullptr ? &*own->hash : nullptr,
      [&](uint32_t row) { return of_slot[map.SlotOf(row).value] == chosen; }, &tables);
  if (!wrong) return {};
  return BadInput(
      fmt::format("output row {} of slot {} does not fit the model: these are not its hash codes",
                  map.RowInSlot(*wrong), map.SlotOf(*wrong).value));
}

// Which batches the slots have taken, and the steps that are committed.
Status Executor::TakeApplied(std::span<const ExecutorRecord> records) {
  std::vector<AppliedBatches::Group> groups;
  size_t found = 0;
  committed_.reset();
  for (const ExecutorRecord& record : records) {
    bool taken = false;
    for (const AppliedBatches::Group& stored : record.applied) {
      AppliedBatches::Group group{{}, stored.batches};
      for (const SlotId slot : stored.slots) {
        if (output_.layer().map().Owns(slot)) group.slots.push_back(slot);
      }
      if (group.slots.empty()) continue;
      found += group.slots.size();
      groups.push_back(std::move(group));
      taken = true;
    }
    if (!taken) continue;
    if (committed_ && record.committed != committed_) {
      return BadInput("the executors' records are of different steps; use another checkpoint");
    }
    committed_ = record.committed;
  }
  std::vector<SlotId> slots;
  for (const auto& group : groups)
    slots.insert(slots.end(), group.slots.begin(), group.slots.end());
  std::sort(slots.begin(), slots.end());
  const auto owned = output_.layer().map().owned();
  if (!std::equal(slots.begin(), slots.end(), owned.begin(), owned.end())) {
    return BadInput(
        fmt::format("the executors' records have {} of {} slots, each should be there "
                    "once; use another checkpoint",
                    found, owned.size()));
  }
  applied_ = AppliedBatches(std::move(groups));
  return {};
}

// From where an executor of the same slots was.
Status Executor::GoOnFrom(const ExecutorRecord& record, std::span<const ExecutorRecord> records) {
  if (record.hash.has_value() != (output_.tables() != nullptr) ||
      !output_.popular().Restore(record.popular)) {
    return DoesNotFit(record);
  }
  cluster_index_ = record.executor;
  negative_seed_ = NegativeSeed(config_.common.seed, cluster_index_);
  return FinishTables(records, &record);
}

void Executor::ForgetStored() {
  AbortSnapshot();
  input_.layer().changed().MarkAll();
  output_.layer().changed().MarkAll();
}

void Executor::AssumeStored() {
  input_.layer().changed().Forget();
  output_.layer().changed().Forget();
  if (loader_ == nullptr) return;
  for (const uint32_t row : loader_->unsettled()) output_.layer().changed().MarkChanged(row);
  loader_.reset();
}

}  // namespace dslide
