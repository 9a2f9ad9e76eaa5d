#include "tests/simulation/sim_store.h"

#include <algorithm>

#include "common/base/check.h"

namespace dslide::sim {

// The disk is slow now and then.
bool SimStore::HasRoom(uint32_t) { return world_.random.Below(4) != 0; }

void SimStore::Put(uint32_t, RowChunk chunk) {
  failed_ = failed_ || host_.DiskFails();
  size_t begin = 0;
  for (size_t i = 0; i < chunk.keys.size(); ++i) {
    rows_[chunk.keys[i]].assign(chunk.bytes.begin() + static_cast<ptrdiff_t>(begin),
                                chunk.bytes.begin() + static_cast<ptrdiff_t>(chunk.ends[i]));
    begin = chunk.ends[i];
  }
}

void SimStore::Begin(const ServerSave& save) {
  DSLIDE_CHECK(!save_);
  save_ = save;
  failed_ = false;
  std::erase_if(rows_, [&](const auto& entry) {
    return !std::binary_search(save.slots.begin(), save.slots.end(), entry.first.slot);
  });
  for (Part& part : parts_) part = Part();
}

void SimStore::Mark(uint32_t executor, StoredRows rows, AppliedShadow shadow) {
  parts_[executor].expected = std::move(rows);
  parts_[executor].shadow = std::move(shadow);
}

void SimStore::GiveUp(const Error& why) {
  rows_ = complete_;
  CheckpointDone done;
  done.error = why.message;
  done.retry = !failed_ && why.kind == ErrorKind::kTryLater;
  End(std::move(done));
}

void SimStore::End(CheckpointDone done) {
  const uint64_t job_id = save_->job_id;
  save_.reset();
  saved_(job_id, std::move(done));
}

// The store has each row as it was at the mark, whatever was done to it since.
void SimStore::Check(uint32_t executor) const {
  for (const auto& [key, expected] : parts_[executor].expected) {
    const auto found = rows_.find(key);
    const bool same = found != rows_.end() && found->second.size() >= expected.size() &&
                      std::equal(expected.begin(), expected.end(), found->second.begin());
    if (same) continue;
    world_.oracles.Violated(
        fmt::format("{}: {} has row {} of slot {} of layer {} {}", host_.name(), save_->directory,
                    key.row, key.slot.value, static_cast<int>(key.layer),
                    found == rows_.end() ? "not at all" : "not as it was at the mark"));
  }
}

void SimStore::Finish(uint32_t executor, std::string record) {
  DSLIDE_CHECK(save_);
  Check(executor);
  parts_[executor].record = std::move(record);
  parts_[executor].finished = true;
  if (!std::all_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.finished; })) return;
  if (failed_ || host_.DiskFails()) {
    rows_.clear();
    complete_.clear();
    CheckpointDone lost;
    lost.error = save_->directory + ": no space left on device";
    return End(std::move(lost));
  }
  complete_ = rows_;
  SimShard shard;
  shard.rows = rows_;
  for (Part& part : parts_) {
    shard.records.push_back(std::move(part.record));
    for (auto& [key, counts] : part.shadow) shard.shadow[key] = std::move(counts);
  }
  CheckpointDone done;
  done.rows = shard.rows.size();
  done.files = {{"CURRENT", 16, 7}};
  done.bytes = 16;
  world_.disk.checkpoints[save_->directory].shards[save_->shard] = std::move(shard);
  End(std::move(done));
}

}  // namespace dslide::sim
