#include "server/layer.h"

#include <bit>
#include <cstring>

#include "common/base/random.h"

namespace dslide {

static_assert(std::endian::native == std::endian::little, "stored rows are little-endian");

Layer::Layer(LayerKind kind, SlotMap map, uint32_t dim, OptimizerKind optimizer, Purpose purpose)
    : kind_(kind),
      map_(std::move(map)),
      dim_(dim),
      moments_(static_cast<uint32_t>(Optimizer::MomentVectors(optimizer))),
      training_(purpose == Purpose::kTraining),
      weights_(size_t{map_.rows()} * dim),
      moment1_(training_ && moments_ > 0 ? weights_.size() : 0),
      moment2_(training_ && moments_ > 1 ? weights_.size() : 0),
      scalars_(map_.rows()) {}

RowView Layer::row(uint32_t row) {
  const size_t at = size_t{row} * dim_;
  return {weights_.data() + at, moment1_.size() > 0 ? moment1_.data() + at : nullptr,
          moment2_.size() > 0 ? moment2_.data() + at : nullptr, &scalars_[row]};
}

namespace {

void PrefetchLines(const void* memory, size_t bytes) {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(static_cast<const char*>(memory) + at);
  }
}

}  // namespace

void Layer::Gather(std::span<const uint32_t> rows, float* out) const {
  constexpr size_t kAhead = 4;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) PrefetchWeights(rows[i + kAhead]);
    std::memcpy(out + i * dim_, weights(rows[i]), WeightBytes());
  }
}

void Layer::PrefetchWeights(uint32_t row) const { PrefetchLines(weights(row), WeightBytes()); }

void Layer::PrefetchAll(uint32_t row) const {
  const size_t at = size_t{row} * dim_;
  PrefetchWeights(row);
  if (moment1_.size() > 0) PrefetchLines(moment1_.data() + at, WeightBytes());
  if (moment2_.size() > 0) PrefetchLines(moment2_.data() + at, WeightBytes());
  __builtin_prefetch(&scalars_[row]);
}

void Layer::Initialise(uint64_t seed, float deviation, uint32_t drawn) {
  const uint64_t layer_seed = SubSeed(seed, static_cast<uint64_t>(kind_));
  // Four 16-bit uniforms have variance 4/12 * 65536^2 and mean 2 * 65535.
  const float scale = deviation / (65536.0f * 0.57735027f);
  for (uint32_t r = 0; r < map_.rows(); ++r) {
    const uint32_t id = map_.Global(r);
    if (id == SlotMap::kNone || id >= drawn) continue;
    Random random(SubSeed(layer_seed, id));
    float* w = weights(r);
    for (uint32_t j = 0; j < dim_; ++j) {
      const uint64_t x = random.Next();
      const auto sum = static_cast<int32_t>((x & 0xffff) + ((x >> 16) & 0xffff) +
                                            ((x >> 32) & 0xffff) + (x >> 48));
      w[j] = static_cast<float>(sum - 131070) * scale;
    }
  }
}

void Layer::StoreRow(uint32_t row, uint8_t* out) const {
  DSLIDE_CHECK(training_);
  const size_t vector_bytes = dim_ * sizeof(float);
  const size_t at = size_t{row} * dim_;
  std::memcpy(out, &scalars_[row], sizeof(RowScalars));
  out += sizeof(RowScalars);
  std::memcpy(out, weights_.data() + at, vector_bytes);
  if (moments_ > 0) std::memcpy(out + vector_bytes, moment1_.data() + at, vector_bytes);
  if (moments_ > 1) std::memcpy(out + 2 * vector_bytes, moment2_.data() + at, vector_bytes);
}

void Layer::LoadRow(uint32_t row, const uint8_t* in) {
  const size_t vector_bytes = dim_ * sizeof(float);
  const size_t at = size_t{row} * dim_;
  std::memcpy(&scalars_[row], in, sizeof(RowScalars));
  in += sizeof(RowScalars);
  std::memcpy(weights_.data() + at, in, vector_bytes);
  if (!training_) return;
  if (moments_ > 0) std::memcpy(moment1_.data() + at, in + vector_bytes, vector_bytes);
  if (moments_ > 1) std::memcpy(moment2_.data() + at, in + 2 * vector_bytes, vector_bytes);
}

}  // namespace dslide
