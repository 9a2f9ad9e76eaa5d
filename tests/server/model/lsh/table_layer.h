// A layer with hash tables over it, and tables built anew to hold them against.
#pragma once

#include "common/base/random.h"
#include "server/model/lsh/live_tables.h"

namespace dslide {

constexpr uint32_t kSlots = 7, kDim = 16;
constexpr uint32_t kSmall = 995;  // ids; 7 regions of 143 rows, 6 are padding; slices differ

// All of the slots, or the first `owned`.
Layer MakeLayer(uint32_t ids, Precision precision = Precision::kFp32, uint32_t owned = kSlots);

HashConfig Hashes(uint32_t tables);

LiveTables Tables(const Layer& layer, const HashConfig& config);

bool IsNeuron(const Layer& layer, uint32_t row);

bool SameBuckets(const LiveTables& a, const LiveTables& b);

bool SameCodes(const LiveTables& a, const LiveTables& b);

LiveTables Fresh(const Layer& layer, const HashConfig& config);

// An update that turns the row's weights elsewhere.
void Change(Layer* layer, uint32_t row, Random* random);

void ChangeSome(Layer* layer, LiveTables* tables, uint64_t one_in, Random* random);

}  // namespace dslide
