// The hash tables of an output layer: their upkeep and their replacement.
#include "common/base/process.h"
#include "common/config/limits.h"
#include "server/model/output_layer.h"

namespace dslide {

bool OutputLayer::Allows(const HashChoice& choice) const {
  HashConfig hash = hash_;
  hash.k = choice.k;
  return choice.k > 0 && choice.k <= kMaxCodeBits && choice.k * BitsPerHash(hash) <= kMaxCodeBits;
}

std::unique_ptr<LiveTables> OutputLayer::MakeTables(const HashChoice& choice) const {
  DSLIDE_CHECK(model_.active == ActiveSet::kLsh && Allows(choice));
  HashConfig hash = hash_;
  hash.k = choice.k;
  const uint64_t seed = choice.round == 0 ? hash_seed_ : SubSeed(hash_seed_, choice.round);
  return std::make_unique<LiveTables>(hash, seed, rows_.layer, kernels_);
}

void OutputLayer::InstallTables(std::unique_ptr<LiveTables> tables, const HashChoice& choice) {
  rows_.tables.emplace(std::move(*tables));
  hashing_ = choice;
  if (!training_) return;
  rows_.tables->BeforeRehash([this](uint32_t row) { rows_.layer.changed().BeforeUpkeep(row); });
}

void OutputLayer::UseHashing(const HashChoice& choice) {
  rows_.next.reset();
  InstallTables(MakeTables(choice), choice);
}

void OutputLayer::BeginRebuild(const HashChoice& choice) {
  if (choice == hashing_) {
    rows_.next.reset();
  } else if (rows_.next == nullptr || choice != next_hashing_) {
    rows_.next.reset();  // frees their memory before the new tables are made
    rows_.next = MakeTables(choice);
    next_hashing_ = choice;
    next_batches_ = 0;
  }
}

bool OutputLayer::FinishRebuild() {
  if (rows_.next == nullptr || next_batches_ < rows_.next->lag_batches()) return false;
  InstallTables(std::move(rows_.next), next_hashing_);
  rows_.layer.changed().MarkAll();
  return true;
}

void OutputLayer::FollowUpdates() {
  if (!rows_.tables) return;
  stats_.Enter(Phase::kRehash);
  const double begin = ThreadCpuSeconds();
  rows_.tables->Advance();
  if (rows_.next) {
    rows_.next->Advance();
    ++next_batches_;
  }
  stats_.CountRehash(ThreadCpuSeconds() - begin);
  stats_.Leave();
}

uint64_t OutputLayer::MemoryBytes() const {
  uint64_t bytes = rows_.layer.MemoryBytes() + search_.MemoryBytes();
  if (rows_.tables) bytes += rows_.tables->MemoryBytes();
  if (rows_.next) bytes += rows_.next->MemoryBytes();
  if (importance_) bytes += importance_->MemoryBytes();
  return bytes;
}

}  // namespace dslide
