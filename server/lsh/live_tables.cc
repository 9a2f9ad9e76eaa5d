#include "server/lsh/live_tables.h"

#include <algorithm>

namespace dslide {

LiveTables::LiveTables(const HashConfig& config, uint64_t seed, const Layer& layer,
                       const Kernels& kernels)
    : layer_(layer),
      functions_(HashFunctions::Make(config, layer.dim(), seed, kernels)),
      tables_(functions_->tables(), functions_->bits(), layer.map().rows()),
      round_(std::max(kMinRound, (layer.map().rows() + kSliceRows - 1) / kSliceRows)),
      changed_(layer.map().rows()) {
  TouchAll();
}

void LiveTables::CatchUp() {
  RehashChanged(0, layer_.map().rows());
  tables_.BuildAll();
  slice_ = 0;
}

bool LiveTables::Fits(const HashPosition& position) const {
  const uint32_t rows = layer_.map().rows();
  return position.slice < round_ && position.build.table < tables_.tables() &&
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
  tables_.Advance((tables_.StepsOfAllTables() + round_ - 1) / round_);
}

void LiveTables::RehashChanged(uint32_t begin, uint32_t end) {
  constexpr size_t kChunk = 512;  // rows gathered at a time
  const size_t tables = tables_.tables();
  weights_.resize(kChunk * layer_.dim());
  codes_.resize(kChunk * tables);
  for (uint32_t row = begin; row < end;) {
    rows_.clear();
    for (; row < end && rows_.size() < kChunk; ++row) {
      if (changed_[row] == 0) continue;
      if (before_rehash_) before_rehash_(row);
      rows_.push_back(row);
      changed_[row] = 0;
    }
    layer_.Gather(rows_, weights_.data());
    functions_->Codes(rows_.size(), weights_.data(), layer_.dim(), codes_.data());
    for (size_t i = 0; i < rows_.size(); ++i) {
      tables_.SetCodes(rows_[i], {codes_.data() + i * tables, tables});
    }
  }
}

}  // namespace dslide
