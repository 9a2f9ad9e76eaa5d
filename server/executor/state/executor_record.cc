#include "server/executor/state/executor_record.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/wire/vector_copy.h"
#include "executor_record_generated.h"

namespace dslide {
namespace {

std::vector<uint32_t> Numbers(const std::vector<SlotId>& slots) {
  std::vector<uint32_t> numbers;
  for (const SlotId slot : slots) numbers.push_back(slot.value);
  return numbers;
}

std::vector<SlotId> Slots(const flatbuffers::Vector<uint32_t>* stored) {
  std::vector<SlotId> slots;
  for (const uint32_t slot : CopyOf(stored)) slots.push_back({slot});
  return slots;
}

// Whether the groups have each of the slots that regions have, no slot twice, and none has no slot.
// Slots without neurons have no region.
bool Covers(const std::vector<AppliedBatches::Group>& groups, std::vector<SlotId> slots) {
  std::vector<SlotId> grouped;
  for (const auto& group : groups) {
    if (group.slots.empty()) return false;
    grouped.insert(grouped.end(), group.slots.begin(), group.slots.end());
  }
  std::erase(slots, SlotMap::kNoSlot);
  std::sort(grouped.begin(), grouped.end());
  std::sort(slots.begin(), slots.end());
  return std::ranges::includes(grouped, slots) &&
         std::adjacent_find(slots.begin(), slots.end()) == slots.end() &&
         std::adjacent_find(grouped.begin(), grouped.end()) == grouped.end();
}

}  // namespace

std::string ExecutorRecord::Encode() const {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::AppliedGroup>> groups;
  for (const AppliedBatches::Group& group : applied) {
    const std::vector<uint32_t> numbers = Numbers(group.slots);
    groups.push_back(wire::CreateAppliedGroupDirect(
        builder, &numbers, &group.batches[static_cast<size_t>(Part::kOutput)].words(),
        &group.batches[static_cast<size_t>(Part::kInput)].words()));
  }
  flatbuffers::Offset<wire::HashPosition> stored_hash = 0;
  if (hash) {
    stored_hash = wire::CreateHashPosition(builder, hash->slice, hash->build.table,
                                           hash->build.placing, hash->build.row);
  }
  const std::vector<uint32_t> numbers = Numbers(slots);
  const auto stored_slots = builder.CreateVector(numbers);
  const auto stored_groups = builder.CreateVector(groups);
  wire::ExecutorRecordBuilder record(builder);
  record.add_format(kExecutorRecordFormat);
  record.add_slots(stored_slots);
  if (committed) record.add_committed(*committed);
  if (hash) record.add_hash(stored_hash);
  record.add_applied(stored_groups);
  record.add_hash_round(hashing.round);
  record.add_hash_k(hashing.k);
  wire::FinishExecutorRecordBuffer(builder, record.Finish());
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<ExecutorRecord> ExecutorRecord::Decode(std::string_view bytes) {
  const std::vector<uint8_t> aligned(bytes.begin(), bytes.end());
  flatbuffers::Verifier verifier(aligned.data(), aligned.size());
  const Error damaged = BadInput(fmt::format(
      "an executor's record is damaged ({} bytes); use an older checkpoint", bytes.size()));
  if (aligned.size() < 8 || !wire::VerifyExecutorRecordBuffer(verifier)) return damaged;
  const wire::ExecutorRecord& stored = *wire::GetExecutorRecord(aligned.data());
  if (stored.format() != kExecutorRecordFormat) {
    return BadInput(fmt::format("an executor's record has format {}, this program reads format {}",
                                stored.format(), kExecutorRecordFormat));
  }
  ExecutorRecord record;
  record.slots = Slots(stored.slots());
  if (stored.committed()) record.committed = *stored.committed();
  if (const wire::HashPosition* hash = stored.hash(); hash != nullptr) {
    record.hash = {hash->slice(), {hash->table(), hash->placing(), hash->row()}};
  }
  record.hashing = {stored.hash_round(), stored.hash_k()};
  if (stored.applied() != nullptr) {
    for (const wire::AppliedGroup* group : *stored.applied()) {
      record.applied.push_back(
          {Slots(group->slots()),
           {BatchSet(CopyOf(group->output())), BatchSet(CopyOf(group->input()))}});
    }
  }
  if (!Covers(record.applied, record.slots)) return damaged;
  return record;
}

}  // namespace dslide
