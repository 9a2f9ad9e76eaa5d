// The worker's copy of the dense layers (common/run/dense_layers.h): which batch begins with it,
// and which asks the servers for another one.
//
// Synchronous training: a copy is of one step, so all batches of a step are computed with the same.
// Asynchronous training: a copy serves kMostBatches batches, and no longer than kMostAgeUs.
// Evaluations: a copy is of one lease of one epoch. A worker that dies loses nothing with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/config/config.h"
#include "common/run/dense_layers.h"
#include "common/wire/messages.h"

namespace dslide {

class DenseCopies {
 public:
  static constexpr int64_t kMostAgeUs = 1'000'000;
  static constexpr uint32_t kMostBatches = 4;

  // What a batch may share a copy with.
  struct Use {
    LeaseKind kind;
    uint64_t step;   // training
    uint32_t epoch;  // evaluations, with the lease
    uint64_t lease;
  };

  // For a batch that begins; null: it has to ask for a copy. `asking`: a batch is under way that
  // has asked for one.
  std::shared_ptr<const DenseWeights> For(const Use& use, const TrainConfig& train, bool asking,
                                          int64_t now_us);
  // What such a batch has got.
  void Keep(const Use& use, std::shared_ptr<const DenseWeights> copy, int64_t now_us);
  // The servers have other rows, or their owners have changed.
  void Clear() { kept_.reset(); }

 private:
  struct Kept {
    Use use;
    std::shared_ptr<const DenseWeights> copy;
    int64_t since_us;
    uint32_t batches = 0;  // that have begun with it
  };
  std::optional<Kept> kept_;
};

}  // namespace dslide
