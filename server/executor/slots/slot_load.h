// What each slot costs its executor: counts of what is done for its rows, and what they come to.
//
// Work is counted in units that mean the same on every machine: one unit is what a (sample, output
// column) pair costs in the three products of a batch. So work per busy second is a machine's
// speed, whatever slots it has. An executor's time goes to its slots by their share of its work.
// Work that belongs to no row (writing a checkpoint, ranking by hash tables) takes time, but is not
// counted.
// Owned by one executor thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "server/rows/slot_map.h"

namespace dslide {

// What was done for rows of a slot.
struct SlotCounts {
  uint64_t retrieved = 0;   // bucket entries read, estimated from some of the samples
  uint64_t columns = 0;     // rows in active sets
  uint64_t scores = 0;      // (sample, column) pairs
  uint64_t scanned = 0;     // (sample, row) pairs of exact rankings, and what those in int8 come to
  uint64_t input_rows = 0;  // distinct ones of batches
  uint64_t updated = 0;     // rows, of both layers
};

// The costs of these things in units of work. Fitted to an executor's times (dslide-microbench,
// Work/): mixes of few and many features, labels, neurons, negatives and candidates, batches of 32
// to 256 samples, with and without hash tables, at H = 128 in fp32 with Adam and at H = 256 in bf16
// with AdaGrad. There the time of a unit, 5.7 ns, differs by 15% at most. The costs of a feature
// and of a sample are within that.
struct WorkCosts {
  static constexpr double kScanned = 1.0 / 3;   // one product of three
  static constexpr uint64_t kInt8Percent = 30;  // of an exact ranking: rounding, scan and check
  static constexpr double kColumn = 50;         // gathered twice, updated, hashed
  static constexpr double kInputRow = 32;
  static constexpr double kRetrieved = 0.5;
  static constexpr double kBuildStep = 1.2;  // of the upkeep of hash tables; spread over the slots
};

// What a slot cost in an interval.
struct SlotCost {
  SlotId slot;
  uint32_t retrieved = 0;  // see SlotCounts
  uint32_t used = 0;       // rows of both layers, once a batch
  uint32_t updated = 0;
  float work = 0;        // in units of work
  float service_us = 0;  // its share of the executor's busy time
  uint64_t bytes = 0;    // of its rows, optimiser state and hash codes in memory
};
// What an executor's slots cost in an interval.
struct ExecutorLoad {
  uint32_t batches = 0;  // whose gradients were taken
  double busy_seconds = 0;
  std::vector<SlotCost> slots;  // ascending
};

class SlotLoad {
 public:
  // The bucket entries of one sample in kSampleEvery are counted.
  static constexpr uint64_t kSampleEvery = 64;

  // Counts the time until it goes out of scope as busy.
  class Busy {
   public:
    explicit Busy(SlotLoad* load) : load_(*load), since_(std::chrono::steady_clock::now()) {}
    ~Busy() {
      const auto time = std::chrono::steady_clock::now() - since_;
      load_.busy_seconds_ += std::chrono::duration<double>(time).count();
    }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    SlotLoad& load_;
    std::chrono::steady_clock::time_point since_;
  };

  explicit SlotLoad(const ClusterConfig& cluster)
      : with_neurons_(OutputSlots(cluster)), counts_(cluster.slots) {}

  // The gradients of a batch were taken, and hash tables were built for `build_steps` steps.
  void CountTaken(uint64_t build_steps) {
    ++taken_;
    build_steps_ += build_steps;
  }
  SlotCounts& Of(SlotId slot) { return counts_[slot.value]; }
  const SlotCounts& Of(SlotId slot) const { return counts_[slot.value]; }
  // Whether the bucket entries of the next sample are to be counted.
  bool TakeTurn() { return ++turn_ % kSampleEvery == 0; }

  // What the slots (ascending) cost since the last call; the bytes are left to the caller.
  ExecutorLoad Take(std::span<const SlotId> slots);

 private:
  double WorkOf(const SlotCounts& counts) const;

  const SlotRange with_neurons_;
  std::vector<SlotCounts> counts_;  // [slots of the model]
  uint64_t build_steps_ = 0;
  uint32_t taken_ = 0;
  uint64_t turn_ = 0;
  double busy_seconds_ = 0;
};

}  // namespace dslide
