// What a checkpoint stores of an output row for the hash tables, behind Layer::StoreRow:
//
//   codes     [L] x uint16   its current codes
//   and unless the row is settled:
//   changed   uint16         1: its weights are newer than its codes
//   counted   uint16         its code when the table being built counted it, kNoCode: not yet
//   built     [L] x uint16   its codes as of each table's last build
//
// A row is settled if its codes are up to date and the tables are built with them. Little-endian.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "server/lsh/live_tables.h"

namespace dslide {

// Appends a row's codes and `changed`, which may change until the row is written.
void AppendHashState(const LiveTables& tables, uint32_t row, std::vector<uint8_t>* out);

// Makes of that, at the end of *out, what is stored, by the tables as they were then. Returns
// whether the row is settled.
bool CompleteHashState(const BuiltCodes& built, uint32_t tables, uint32_t row,
                       std::vector<uint8_t>* out);

// Fills tables from stored rows.
class HashStateLoader {
 public:
  // `tables` must outlive the loader.
  explicit HashStateLoader(LiveTables* tables);

  // False: no such state is ever stored.
  bool Load(uint32_t row, std::span<const uint8_t> state);

  // After the last row. With a position (which REQUIRES LiveTables::Fits) the tables are exactly
  // those that were stored; without one their upkeep begins anew.
  void Finish(const HashPosition* position);

  // Rows that were not settled.
  const std::vector<uint32_t>& unsettled() const { return unsettled_; }

 private:
  LiveTables& tables_;
  BuiltCodes built_;
  std::vector<uint32_t> unsettled_;
  std::vector<BucketCode> counted_;  // of those
  std::vector<BucketCode> codes_;    // scratch
};

}  // namespace dslide
