#include "scheduler/balance/table_health.h"

#include <cmath>

#include "common/config/limits.h"

namespace dslide {

uint32_t HashesOfRound(const HashConfig& hash, uint32_t hidden, uint32_t round) {
  const uint32_t bits = BitsPerHash(hash);
  uint32_t k = hash.k;
  for (; round > 0; --round) {
    if ((k + 1) * bits > kMaxCodeBits || (k + 1) * hash.bin > hidden) break;
    ++k;
  }
  return k;
}

std::optional<RebuildTables> BetterTables(const Heartbeat& beat, const HashConfig& hash,
                                          uint32_t hidden) {
  if (beat.hash_round >= kMaxHashRounds) return std::nullopt;
  const uint32_t bits = HashesOfRound(hash, hidden, beat.hash_round) * BitsPerHash(hash);
  const double mean = double{beat.bucket_mean} * (1 - double{beat.bucket_empty_share});
  const double rows = std::ldexp(mean, static_cast<int>(bits));
  if (beat.bucket_largest <= kMaxBucketShare * rows || beat.bucket_p99 <= kMaxBucketP99 * mean) {
    return std::nullopt;
  }
  const uint32_t round = beat.hash_round + 1;
  return RebuildTables{round, HashesOfRound(hash, hidden, round)};
}

}  // namespace dslide
