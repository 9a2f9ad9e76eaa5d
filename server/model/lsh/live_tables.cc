#include "server/model/lsh/live_tables.h"

#include <algorithm>

#include "common/base/random.h"

namespace dslide {
namespace {

constexpr uint64_t kDwta = 0;  // the number of the hash family, which checkpoints compare

uint64_t IdentityOf(const HashConfig& config, uint64_t seed) {
  uint64_t identity = seed;
  for (const uint64_t part :
       {kDwta, uint64_t{config.k}, uint64_t{config.tables}, uint64_t{config.bin}}) {
    identity = SubSeed(identity, part);
  }
  return identity;
}

}  // namespace

LiveTables::LiveTables(const HashConfig& config, uint64_t seed, const Layer& layer,
                       const Kernels& kernels)
    : layer_(layer),
      functions_(config, layer.dim(), seed, kernels),
      identity_(IdentityOf(config, seed)),
      tables_(functions_.tables(), functions_.bits(), layer.map().rows()),
      round_(std::max(kMinRound, (layer.map().all_rows() + kSliceRows - 1) / kSliceRows)),
      changed_(layer.map().rows()) {
  FollowMap();
}

void LiveTables::FollowMap() {
  const SlotMap& map = layer_.map();
  if (map.rows() > tables_.rows()) {
    // Rows that the present round has not yet scanned stay ahead of the slice.
    slice_ = static_cast<uint32_t>(uint64_t{tables_.rows()} * slice_ / map.rows());
    tables_.Resize(map.rows());
    changed_.resize(map.rows());
  }
  regions_.resize(map.rows() / map.rows_per_slot());
  for (uint32_t region = 0; region < regions_.size(); ++region) Follow(region);
}

void LiveTables::Follow(uint32_t region) {
  const SlotMap& map = layer_.map();
  const uint32_t begin = region * map.rows_per_slot(), end = begin + map.rows_per_slot();
  Region& was = regions_[region];
  Region now{map.SlotOf(begin), map.Owns(map.SlotOf(begin))};
  now.hidden = now.slot == was.slot && !now.attached && (was.attached || was.hidden);
  if (was.slot != SlotMap::kNoSlot && was.slot != now.slot) {
    const std::vector<BucketCode> none(tables_.size(), kNoCode);
    for (uint32_t row = begin; row < end; ++row) RestoreRow(row, none, false);
    was.attached = false;
  }
  if (now.hidden && !was.hidden) tables_.Hide(begin, end);
  if (!now.hidden && was.hidden) tables_.Show(begin, end);
  for (uint32_t row = begin; row < end && now.attached && !was.attached; ++row) {
    const bool is_new = map.Global(row) != SlotMap::kNone && tables_.Code(0, row) == kNoCode;
    if (is_new) changed_[row] = 1;
  }
  was = now;
}

void LiveTables::TakeRow(uint32_t row, std::span<const BucketCode> codes, bool changed) {
  const std::vector<BucketCode> none(codes.empty() ? tables_.size() : 0, kNoCode);
  RestoreRow(row, codes.empty() ? none : codes, changed || codes.empty());
}

void LiveTables::CatchUp() {
  RehashChanged(0, layer_.map().rows());
  tables_.BuildAll();
  slice_ = 0;
}

bool LiveTables::Fits(const HashPosition& position) const {
  const uint32_t rows = layer_.map().rows();
  return position.slice < round_ && position.build.table < tables_.size() &&
         position.build.row < std::max(rows, 1u);
}

void LiveTables::TouchAll() {
  for (uint32_t row = 0; row < changed_.size(); ++row) {
    changed_[row] = layer_.map().Global(row) != SlotMap::kNone;
  }
}

void LiveTables::Advance() {
  const uint64_t rows = layer_.map().rows();
  RehashChanged(static_cast<uint32_t>(rows * slice_ / round_),
                static_cast<uint32_t>(rows * (slice_ + 1) / round_));
  slice_ = (slice_ + 1) % round_;
  tables_.Advance(build_steps());
}

void LiveTables::RehashChanged(uint32_t begin, uint32_t end) {
  constexpr size_t kChunk = 512;  // rows gathered at a time
  const size_t tables = tables_.size();
  weights_.resize(kChunk * layer_.dim());
  codes_.resize(kChunk * tables);
  for (uint32_t row = begin; row < end;) {
    rows_.clear();
    for (; row < end && rows_.size() < kChunk; ++row) {
      if (changed_[row] == 0 || layer_.map().Global(row) == SlotMap::kNone) continue;
      if (before_rehash_) before_rehash_(row);
      rows_.push_back(row);
      changed_[row] = 0;
    }
    layer_.Fetch(rows_, true);
    layer_.Gather(rows_, weights_.data());
    functions_.Codes(rows_.size(), weights_.data(), layer_.dim(), codes_.data());
    for (size_t i = 0; i < rows_.size(); ++i) {
      tables_.SetCodes(rows_[i], {codes_.data() + i * tables, tables});
    }
  }
}

}  // namespace dslide
