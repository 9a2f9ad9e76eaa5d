#include "server/executor/state/executor_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/failpoint.h"

namespace dslide {
namespace {

Result<std::vector<ExecutorRecord>> DecodeAll(std::span<const std::string> encoded) {
  std::vector<ExecutorRecord> records;
  for (const std::string& bytes : encoded) {
    Result<ExecutorRecord> record = ExecutorRecord::Decode(bytes);
    DSLIDE_RETURN_IF_ERROR(record);
    records.push_back(std::move(*record));
  }
  return records;
}

// Those of a record's groups that have slots of this map, reduced to these slots.
std::vector<AppliedBatches::Group> GroupsIn(const SlotMap& map, const ExecutorRecord& record) {
  std::vector<AppliedBatches::Group> groups;
  for (const AppliedBatches::Group& stored : record.applied) {
    AppliedBatches::Group group{{}, stored.batches};
    for (const SlotId slot : stored.slots) {
      if (map.Owns(slot)) group.slots.push_back(slot);
    }
    if (!group.slots.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

// The slots of all groups, ascending.
std::vector<SlotId> SlotsOf(const std::vector<AppliedBatches::Group>& groups) {
  std::vector<SlotId> slots;
  for (const auto& group : groups) {
    slots.insert(slots.end(), group.slots.begin(), group.slots.end());
  }
  std::ranges::sort(slots);
  return slots;
}

}  // namespace

ExecutorState::ExecutorState(const Config& config, InputLayer* input, OutputLayer* output)
    : config_(config), input_(*input), output_(*output) {}

ExecutorRecord ExecutorState::Record(std::optional<uint64_t> committed,
                                     const AppliedBatches& applied) const {
  ExecutorRecord record;
  record.slots = output_.layer().map().Layout();
  record.committed = committed;
  if (const NeuronIndex* index = output_.index()) {
    record.hash = index->tables().Position();
    record.hashing = index->functions();
  }
  record.applied = applied.groups();
  return record;
}

void ExecutorState::BeginSnapshot(SnapshotSink* sink, uint32_t number, std::string record) {
  snapshot_.emplace(sink, number, std::move(record), &input_, &output_);
}

bool ExecutorState::AdvanceSnapshot(uint32_t rows) {
  return snapshot_in_progress() && snapshot_->Advance(rows);
}

void ExecutorState::AbortSnapshot() {
  if (snapshot_) snapshot_->Abort();
  snapshot_.reset();
}

void ExecutorState::ForgetStored() {
  AbortSnapshot();
  input_.layer().changed().MarkAll();
  output_.layer().changed().MarkAll();
}

void ExecutorState::AssumeStored() {
  input_.layer().changed().Forget();
  output_.layer().changed().Forget();
  if (output_.index() == nullptr) return;
  for (const uint32_t row : output_.index()->EndLoad()) output_.layer().changed().MarkChanged(row);
}

Status ExecutorState::LoadRow(const StoredRowKey& key, std::span<const uint8_t> value) {
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
  NeuronIndex* index = is_output ? output_.index() : nullptr;
  if (value.size() < layer.RowBytes() &&
      (index != nullptr || value.size() != layer.RowBytesWithoutMass())) {
    return refuse("does not fit the model: it is too short");
  }
  const uint32_t local = layer.map().LocalRow(key.slot, key.row);
  const std::span<const uint8_t> row = value.first(std::min(value.size(), layer.RowBytes()));
  const std::span<const uint8_t> rest = value.subspan(row.size());
  if (index != nullptr && !index->LoadState(local, rest)) {
    return refuse("does not fit the model: these are not its hash codes");
  }
  if (index == nullptr && !rest.empty()) return refuse("does not fit the model: it is too long");
  layer.LoadRow(local, row);
  return {};
}

Status ExecutorState::FinishLoadForInference(std::span<const std::string> records) {
  const Result<std::vector<ExecutorRecord>> decoded = DecodeAll(records);
  DSLIDE_RETURN_IF_ERROR(decoded);
  DSLIDE_RETURN_IF_ERROR(FinishIndex(*decoded, nullptr));
  if (NeuronIndex* index = output_.index()) {
    index->tables().CatchUp();
    (void)index->EndLoad();
  }
  return {};
}

Result<ExecutorState::Position> ExecutorState::FinishLoad(std::span<const std::string> records) {
  const Result<std::vector<ExecutorRecord>> decoded = DecodeAll(records);
  DSLIDE_RETURN_IF_ERROR(decoded);
  Result<Position> position = TakePosition(*decoded);
  DSLIDE_RETURN_IF_ERROR(position);
  // Without slots there is nothing to go on with.
  if (const std::vector<SlotId> layout = output_.layer().map().Layout(); !layout.empty()) {
    for (const ExecutorRecord& record : *decoded) {
      if (record.slots != layout) continue;
      DSLIDE_RETURN_IF_ERROR(FinishIndex(*decoded, &record));
      return position;
    }
  }
  DSLIDE_RETURN_IF_ERROR(FinishIndex(*decoded, nullptr));
  return position;
}

// Which batches the slots have taken, and the steps that are committed.
Result<ExecutorState::Position> ExecutorState::TakePosition(
    std::span<const ExecutorRecord> records) const {
  const SlotMap& map = output_.layer().map();
  std::vector<AppliedBatches::Group> groups;
  std::optional<uint64_t> committed;
  for (const ExecutorRecord& record : records) {
    std::vector<AppliedBatches::Group> own = GroupsIn(map, record);
    if (own.empty()) continue;
    if (committed && record.committed != committed) {
      return BadInput("the executors' records are of different steps; use another checkpoint");
    }
    committed = record.committed;
    std::ranges::move(own, std::back_inserter(groups));
  }
  const std::vector<SlotId> slots = SlotsOf(groups);
  if (!std::ranges::equal(slots, map.owned())) {
    return BadInput(
        fmt::format("slots in the executors' records: {}, slots needed: {}; each must be "
                    "there once; use another checkpoint",
                    slots.size(), map.owned().size()));
  }
  return Position{AppliedBatches(std::move(groups)), committed};
}

// Has the index use what was loaded.
Status ExecutorState::FinishIndex(std::span<const ExecutorRecord> records,
                                  const ExecutorRecord* own) {
  NeuronIndex* index = output_.index();
  if (index == nullptr) return own != nullptr && own->hash ? RecordDoesNotFit() : Status();
  std::vector<NeuronIndex::Stored> stored;
  for (const ExecutorRecord& record : records) {
    stored.push_back({record.slots, record.hashing, record.hash});
  }
  return index->FinishLoad(stored, own == nullptr ? nullptr : &stored[own - records.data()]);
}

}  // namespace dslide
