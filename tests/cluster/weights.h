// The model that a run has left.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "common/checkpoint/manifest.h"
#include "server/storage/checkpoint_verify.h"
#include "tests/cluster/cluster.h"
#include "tests/support/results.h"

namespace dslide {

// A checksum of the whole model in the last checkpoint: weights, optimiser state, hash codes.
inline uint64_t Weights(const TestRun& run) {
  const std::string checkpoint = Ok(FindCheckpoint(run.run_directory() + "/checkpoint"));
  const Manifest manifest = Ok(ReadManifest(checkpoint));
  const CheckpointHealth health = VerifyCheckpoint(checkpoint, manifest);
  REQUIRE(health.damage.empty());
  CHECK(health.rows > 0);
  return health.checksum;
}

}  // namespace dslide
