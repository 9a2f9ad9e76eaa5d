// Whether a server's hash tables still tell its neurons apart, and which tables to build instead.
//
// A healthy table spreads its rows: with gnd-tibkat (41,218 labels, 4,096 buckets, two executors)
// the largest bucket grows from 0.1% to 0.7% of an executor's rows during training, and the 99th
// percentile of buckets from 2 to 6 times the mean; linux-calls (205,419 labels) ends at 0.6% and 5
// times. Rows that are nearly parallel get the same
// codes: if each is a common vector plus normal noise of the same length, the largest bucket has
// 12% of 41,218 rows and the 99th percentile is 48 means; with half as much noise 41% and 290, with
// a tenth 96% and 3,600. Then a query reads a large share of all rows and ranks them by chance.
#pragma once

#include <cstdint>
#include <optional>

#include "common/config/config.h"
#include "common/wire/messages.h"

namespace dslide {

// Tables are degenerate when both are exceeded: few queries meet a single large bucket, for example
// of neurons that never learned anything.
constexpr double kMaxBucketShare = 0.1;  // of the rows, in the largest bucket
constexpr double kMaxBucketP99 = 20;     // times the mean over all buckets, empty ones too

// No hash functions tell parallel rows apart, so after some rounds new functions are no use.
constexpr uint32_t kMaxHashRounds = 3;

// Hashes per table in a round; `hash` is the run's configuration. One more than in the round
// before, while a code has room for it and, with DWTA, a table's hashes look at different
// coordinates: at K = 4 a fifth hash more than halves the rows that a query meets if the noise is
// as long as the common vector.
uint32_t HashesOfRound(const HashConfig& hash, uint32_t hidden, uint32_t round);

// The tables that the sender of this heartbeat should build; none: its tables are healthy, or other
// functions would not help. All servers should build what one server needs: a slot that moves
// between servers of different rounds must be hashed again.
std::optional<RebuildTables> BetterTables(const Heartbeat& beat, const HashConfig& hash,
                                          uint32_t hidden);

}  // namespace dslide
