// Draws the neurons of a batch's active set by the share of the softmax that they have.
//
// The normaliser of a sample is a sum over all neurons. A set S that contains neuron j with
// probability pi_j estimates it without bias if each member counts 1 / pi_j times (Horvitz and
// Thompson, 1952), and the best pi for that is proportional to the neurons' shares of the sum. The
// share of a neuron changes slowly, so it is remembered: its mass is the mean probability that
// samples gave it which do not have it as a label (Layer::mass(); adaptive importance sampling:
// Bengio and Senecal, IEEE Trans. Neural Networks 19(4), 2008).
//
// Buckets: neurons of a slot whose masses have the same power of two are in one class.
//   class(m) = floor(log2(max(N m, 1/4))) + 2,    pi = min(1, c 2^class)
// with c of each slot so that R / V neurons of a slot are expected. The lower bound of N m keeps
// every pi > 0. Classes with pi = 1 are in every batch.
//
// Whether a neuron is drawn depends on the seed, the batch, the neuron's place in its slot and the
// masses in that slot, and on nothing else: neither on the slot's owner nor on the slot's past.
// Owned by one executor thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/huge_buffer.h"
#include "common/base/random.h"
#include "server/rows/layer.h"

namespace dslide {

// Uniform over [0, 1), by its arguments alone.
inline double UniformOf(uint64_t seed, uint32_t id) {
  return static_cast<double>(Mix64(seed + id) >> 11) * 0x1.0p-53;
}

class ImportanceBuckets {
 public:
  static constexpr uint32_t kClasses = 32;

  struct Draw {
    uint32_t row;  // local
    float pi;      // the probability with which it was drawn
  };

  // `layer` must outlive the buckets. Its neurons are in the class of their masses.
  explicit ImportanceBuckets(const Layer& layer);

  // Call when the layer's map changed: slots that have come or gone since the last call are looked
  // through, and no others.
  void FollowMap();
  // Call when rows were loaded.
  void FollowLoad();
  // Call when the layer has more ids.
  void FollowResize();
  // Call when the mass of a row changed.
  void FollowMass(uint32_t row);
  // Prefetches what FollowMass() looks at.
  void Prefetch(uint32_t row) const {
    __builtin_prefetch(&class_[row]);
    __builtin_prefetch(&place_[row]);
  }

  // The probability with which Sample(expected, ...) draws a row.
  class Chances {
   public:
    float Of(uint32_t row) const {
      return static_cast<float>(of_slot_[row / rows_per_slot_][class_[row]]);
    }

   private:
    friend class ImportanceBuckets;
    std::vector<std::array<double, kClasses>> of_slot_;  // [regions]
    uint32_t rows_per_slot_ = 1;
    const uint8_t* class_ = nullptr;  // [rows]
  };
  // The result is valid until the masses or the map change.
  Chances ChancesOf(uint32_t expected) const;

  // Draws neurons so that `expected` of all N are expected. `seed` is that of the batch.
  void Sample(uint32_t expected, uint64_t seed, std::vector<Draw>* out) const;

  // Memory that one row takes.
  static constexpr size_t kRowBytes = sizeof(uint8_t) + 2 * sizeof(uint32_t);
  uint64_t MemoryBytes() const { return class_.size() * kRowBytes; }
  void CheckInvariants() const;

 private:
  static constexpr uint8_t kNoClass = 0xff;

  using Members = std::array<std::vector<uint32_t>, kClasses>;  // rows within the slot

  uint8_t ClassOf(uint32_t row) const;
  // Puts the neurons of a region into their classes.
  void Fill(uint32_t region);
  void Add(Members* members, uint32_t row, uint8_t cls);
  void Remove(Members* members, uint32_t row);
  // Of a slot's classes, where `expected` of all N are expected.
  std::array<double, kClasses> ChancesIn(SlotId slot, uint32_t expected) const;
  // A place where a walk for a class stops.
  struct Stop {
    uint32_t row;  // local
    uint32_t cls;
  };
  void SampleSlot(SlotId slot, uint32_t expected, uint64_t seed, std::vector<Stop>* stops,
                  std::vector<Draw>* out) const;

  const Layer& layer_;
  std::vector<SlotId> layout_;  // [regions] the slots whose neurons are in their classes
  std::vector<Members> slots_;  // [regions]
  // In huge pages: the rows of a batch are far apart.
  HugeBuffer<uint8_t> class_;   // [rows]; kNoClass: no neuron
  HugeBuffer<uint32_t> place_;  // [rows] in its class's members
};

}  // namespace dslide
