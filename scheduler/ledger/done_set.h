// A set of an epoch's batches with quick lookup: a few bits per batch, whatever their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "common/checkpoint/manifest.h"

namespace dslide {

class DoneSet {
 public:
  // False if the batch is in the set already.
  bool Insert(const DoneBatch& batch) {
    uint64_t& mask = masks_[Key(batch)];
    const uint64_t bit = uint64_t{1} << (batch.index % 64);
    const bool fresh = (mask & bit) == 0;
    mask |= bit;
    return fresh;
  }
  bool Contains(const DoneBatch& batch) const {
    const auto found = masks_.find(Key(batch));
    return found != masks_.end() && (found->second >> (batch.index % 64) & 1) != 0;
  }
  void Clear() { masks_.clear(); }
  bool operator==(const DoneSet&) const = default;

 private:
  static uint64_t Key(const DoneBatch& batch) {
    return uint64_t{batch.unit} << 32 | batch.index / 64;
  }

  std::unordered_map<uint64_t, uint64_t> masks_;  // 64 batches of a unit per word
};

}  // namespace dslide
