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

// Appends a row's codes and `changed`: the state that may change before the row is written.
void AppendHashState(const LiveTables& tables, uint32_t row, std::vector<uint8_t>* out);

// Completes the entry at the end of *out with the build state of the tables at the mark. Returns
// whether the row is settled.
bool CompleteHashState(const BuiltCodes& built, uint32_t tables, uint32_t row,
                       std::vector<uint8_t>* out);

// Fills tables from stored rows. Only after the last row is it known which hash functions made
// their codes.
class HashStateLoader {
 public:
  // For L tables over local rows [0, rows).
  HashStateLoader(uint32_t tables, uint32_t rows);

  // False: not a valid stored state.
  bool Load(uint32_t row, std::span<const uint8_t> state);

  // Call after the last row. `by_these` says whether the functions of *tables made a row's codes;
  // *tables is new and of the loader's size. Rows with other codes are hashed and all tables are
  // built. With a position (which REQUIRES LiveTables::Fits, and no rows with other codes) the
  // tables are exactly those that were stored; without one their upkeep begins from the start.
  // Returns a row whose codes these functions cannot give, if there is one; *tables is then
  // useless.
  std::optional<uint32_t> Finish(const HashPosition* position,
                                 const std::function<bool(uint32_t row)>& by_these,
                                 LiveTables* tables);

  // Rows whose state is not the loaded one: the next checkpoint must store them.
  const std::vector<uint32_t>& unsettled() const { return unsettled_; }

 private:
  // Of a row that was not settled.
  struct Upkeep {
    BucketCode counted;
    bool changed;
  };

  uint32_t tables_;
  HugeBuffer<BucketCode> codes_;  // [rows x tables] current codes
  std::vector<uint8_t> loaded_;   // [rows]
  BuiltCodes built_;
  std::vector<uint32_t> unsettled_;
  std::vector<Upkeep> upkeep_;      // of the rows loaded into unsettled_, in the same order
  std::vector<BucketCode> stored_;  // scratch
};

}  // namespace dslide
