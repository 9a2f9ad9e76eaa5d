// The model that a run has left.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "common/checkpoint/manifest.h"
#include "server/storage/checkpoint_verify.h"
#include "tests/cluster/cluster.h"

namespace dslide {

// A checksum of the whole model in the last checkpoint: weights, optimiser state, hash codes.
inline uint64_t Weights(const TestRun& run) {
  const Result<std::string> checkpoint = FindCheckpoint(run.run_directory() + "/checkpoint");
  REQUIRE(checkpoint.ok());
  const Result<Manifest> manifest = ReadManifest(*checkpoint);
  REQUIRE(manifest.ok());
  const CheckpointHealth health = VerifyCheckpoint(*checkpoint, *manifest);
  REQUIRE(health.damage.empty());
  CHECK(health.rows > 0);
  return health.checksum;
}

}  // namespace dslide
