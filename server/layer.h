// The parameter rows of one layer that live in one executor: weights, optimiser state, bias.
//
// Row r (a SlotMap local index) has weights [dim], Adam's moments [dim] each, and RowScalars.
// Weights, moments and scalars are four arrays, so that a scan over all neurons reads nothing but
// weights. Owned by one executor thread.
#pragma once

#include <cstdint>
#include <span>

#include "common/config/config.h"
#include "server/huge_buffer.h"
#include "server/optimizer.h"
#include "server/slot_map.h"

namespace dslide {

// Also the first byte of a row's key in a checkpoint.
enum class LayerKind : uint8_t { kInput = 0, kOutput = 1 };

enum class Purpose { kTraining, kInference };

class Layer {
 public:
  // For inference no moments are kept in memory; stored rows have them all the same.
  Layer(LayerKind kind, SlotMap map, uint32_t dim, OptimizerKind optimizer, Purpose purpose);

  LayerKind kind() const { return kind_; }
  const SlotMap& map() const { return map_; }
  uint32_t dim() const { return dim_; }

  float* weights(uint32_t row) { return weights_.data() + size_t{row} * dim_; }
  const float* weights(uint32_t row) const { return weights_.data() + size_t{row} * dim_; }
  float bias(uint32_t row) const { return scalars_[row].bias; }

  RowView row(uint32_t row);

  // out[i] = weights of rows[i], [rows x dim].
  void Gather(std::span<const uint32_t> rows, float* out) const;
  // Has the row's weights, or all that an update of it touches, brought near.
  void PrefetchWeights(uint32_t row) const;
  void PrefetchAll(uint32_t row) const;

  // Draws the weights of id i from a distribution with mean 0 and the given standard deviation
  // (sum of four uniforms, bounded at 3.46 deviations) by (seed, layer, i) alone, so any split over
  // servers starts equal. Ids >= `drawn` stay 0.
  void Initialise(uint64_t seed, float deviation, uint32_t drawn);

  // Bytes of a row in memory: its weights, and the optimiser's vectors beside them.
  size_t WeightBytes() const { return dim_ * sizeof(float); }
  size_t StateBytes() const { return training_ ? WeightBytes() * moments_ : 0; }

  // Bytes of a stored row: scalars, weights, moments.
  size_t RowBytes() const { return sizeof(RowScalars) + dim_ * sizeof(float) * (1 + moments_); }
  // Copies a row to / from its stored form, RowBytes() long, little-endian. Storing REQUIRES
  // training.
  void StoreRow(uint32_t row, uint8_t* out) const;
  void LoadRow(uint32_t row, const uint8_t* in);

  uint64_t MemoryBytes() const {
    return sizeof(float) * (weights_.size() + moment1_.size() + moment2_.size()) +
           sizeof(RowScalars) * scalars_.size();
  }

 private:
  LayerKind kind_;
  SlotMap map_;
  uint32_t dim_;
  uint32_t moments_;  // stored a row
  bool training_;
  HugeBuffer<float> weights_;       // [rows x dim]
  HugeBuffer<float> moment1_;       // [rows x dim] or empty
  HugeBuffer<float> moment2_;       // [rows x dim] or empty
  HugeBuffer<RowScalars> scalars_;  // [rows]
};

}  // namespace dslide
