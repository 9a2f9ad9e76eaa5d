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
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/model/lsh/live_tables.h"

namespace dslide {

// Appends a row's codes and `changed`, which may change until the row is written.
void AppendHashState(const LiveTables& tables, uint32_t row, std::vector<uint8_t>* out);

// Makes of that, at the end of *out, what is stored, by the tables as they were then. Returns
// whether the row is settled.
bool CompleteHashState(const BuiltCodes& built, uint32_t tables, uint32_t row,
                       std::vector<uint8_t>* out);

// Fills tables from stored rows. By which functions their codes are is known after the last row.
class HashStateLoader {
 public:
  // For L tables over local rows [0, rows).
  HashStateLoader(uint32_t tables, uint32_t rows);

  // False: no such state is ever stored.
  bool Load(uint32_t row, std::span<const uint8_t> state);

  // After the last row. `by_these` tells of which rows the codes are by the functions of *tables,
  // which are of the loader's size and new; other rows are hashed, and all tables are built. With a
  // position (which REQUIRES LiveTables::Fits, and no other rows) the tables are exactly those that
  // were stored; without one their upkeep begins anew. Returns a row whose codes these functions do
  // not give, if there is one; the tables are then of no use.
  std::optional<uint32_t> Finish(const HashPosition* position,
                                 const std::function<bool(uint32_t row)>& by_these,
                                 LiveTables* tables);

  // Rows of which something else than what was loaded is to be stored.
  const std::vector<uint32_t>& unsettled() const { return unsettled_; }

 private:
  // Of the rows that were not settled.
  struct Upkeep {
    BucketCode counted;
    bool changed;
  };

  uint32_t tables_;
  HugeBuffer<BucketCode> codes_;  // [rows x tables] current ones
  std::vector<uint8_t> loaded_;   // [rows]
  BuiltCodes built_;
  std::vector<uint32_t> unsettled_;
  std::vector<Upkeep> upkeep_;      // of those, in their order
  std::vector<BucketCode> stored_;  // scratch
};

}  // namespace dslide
