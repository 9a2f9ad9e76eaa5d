// An executor's state: to a checkpoint, and from one.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/failpoint.h"
#include "server/executor.h"

namespace dslide {

void Executor::BeginSnapshot(SnapshotSink* sink, uint32_t number) {
  DSLIDE_CHECK(purpose_ == Purpose::kTraining);
  if (snapshot_in_progress()) AbortSnapshot();
  applied_.Merge();
  snapshot_.emplace(sink, number, Record().Encode(), &input_, &output_);
}

bool Executor::AdvanceSnapshot(uint32_t rows) {
  return snapshot_in_progress() && snapshot_->Advance(rows);
}

void Executor::AbortSnapshot() {
  if (snapshot_) snapshot_->Abort();
  snapshot_.reset();
}

ExecutorRecord Executor::Record() {
  ExecutorRecord record;
  record.executor = index_;
  record.slots = output_.layer().map().Layout();
  record.committed = committed_;
  if (output_.tables() != nullptr) record.hash = output_.tables()->Position();
  record.popular = output_.popular().Save();
  record.applied = applied_.groups();
  return record;
}

Status Executor::LoadRow(const StoredRowKey& key, std::span<const uint8_t> value) {
  if (PassFailpoint(Failpoint::kServerMidRestore)) return Failed("failpoint server.mid-restore");
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
    if (loader_ == nullptr) loader_ = std::make_unique<HashStateLoader>(output_.tables());
    if (!loader_->Load(local, rest)) {
      return refuse("does not fit the model: these are not its hash codes");
    }
  } else if (!rest.empty()) {
    return refuse("does not fit the model: it is too long");
  }
  layer.LoadRow(local, value.data());
  return {};
}

Status Executor::FinishLoad(std::span<const std::string> bytes) {
  if (output_.tables() != nullptr && loader_ == nullptr) {
    loader_ = std::make_unique<HashStateLoader>(output_.tables());
  }
  if (purpose_ == Purpose::kInference) {
    if (output_.tables() != nullptr) output_.tables()->CatchUp();
    loader_.reset();
    return {};
  }
  std::vector<ExecutorRecord> records;
  for (const std::string& each : bytes) {
    Result<ExecutorRecord> record = ExecutorRecord::Decode(each);
    DSLIDE_RETURN_IF_ERROR(record);
    records.push_back(std::move(*record));
  }
  DSLIDE_RETURN_IF_ERROR(TakeApplied(records));
  // Of no slots there is nothing to go on with.
  if (const std::vector<SlotId> layout = output_.layer().map().Layout(); !layout.empty()) {
    for (const ExecutorRecord& record : records) {
      if (record.slots == layout) return GoOnFrom(record);
    }
  }
  if (loader_ != nullptr) loader_->Finish(nullptr);
  return {};
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
Status Executor::GoOnFrom(const ExecutorRecord& record) {
  LiveTables* tables = output_.tables();
  const bool fits = record.hash.has_value() == (tables != nullptr) &&
                    (tables == nullptr || tables->Fits(*record.hash)) &&
                    output_.popular().Restore(record.popular);
  if (!fits) {
    return BadInput(
        fmt::format("the record of executor {} does not fit the model; the checkpoint "
                    "is damaged or of another model",
                    record.executor));
  }
  index_ = record.executor;
  negative_seed_ = NegativeSeed(config_.common.seed, index_);
  if (loader_ != nullptr) loader_->Finish(&*record.hash);
  return {};
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
