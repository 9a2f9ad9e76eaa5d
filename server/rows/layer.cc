#include "server/rows/layer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/random.h"
#include "common/math/prefetch.h"
#include "common/run/silence.h"

namespace dslide {
namespace {

static_assert(std::endian::native == std::endian::little, "stored rows are little-endian");

}  // namespace

void Layer::Vectors::Grow(size_t elements) {
  if (narrow) {
    bf16.Grow(elements);
  } else {
    fp32.Grow(elements);
  }
}

void Layer::Vectors::Spread(size_t before, size_t after, size_t regions) {
  if (narrow) {
    bf16.Spread(before, after, regions);
  } else {
    fp32.Spread(before, after, regions);
  }
}

void Layer::Vectors::GiveBack(size_t begin, size_t end) {
  if (narrow) {
    bf16.GiveBack(begin, end);
  } else {
    fp32.GiveBack(begin, end);
  }
}

const uint8_t* Layer::Vectors::At(size_t element) const {
  return narrow ? reinterpret_cast<const uint8_t*>(bf16.data() + element)
                : reinterpret_cast<const uint8_t*>(fp32.data() + element);
}

Layer::Layer(LayerKind kind, const Config& config, SlotMap map, Purpose purpose,
             const Kernels& kernels)
    : kind_(kind),
      map_(std::move(map)),
      dim_(kind == LayerKind::kInput ? config.model.hidden : OutputWidth(config.model)),
      moments_(static_cast<uint32_t>(Optimizer::MomentVectors(config.train.optimizer))),
      bf16_(config.model.precision == Precision::kBf16),
      narrow_moments_(config.train.moments == MomentPrecision::kBf16),
      training_(purpose == Purpose::kTraining),
      keeps_mass_(kind == LayerKind::kOutput && DrawsByMass(config.model)),
      kernels_(kernels),
      optimizer_(config.train, kernels),
      weights_(bf16_),
      moment1_(narrow_moments_),
      moment2_(narrow_moments_),
      changed_(training_ ? map_.rows() : 0) {
  Grow();
}

// Extends all arrays to the map's rows.
void Layer::Grow() {
  if (tier_ == nullptr && most_places_ > 0 && map_.rows() > most_places_ && !StartTier().ok()) {
    throw std::bad_alloc();
  }
  if (tier_ != nullptr) {
    tier_->Grow(map_.rows());
  } else {
    GrowVectors(map_.rows());
  }
  scalars_.Grow(map_.rows());
  if (keeps_mass_) masses_.Grow(map_.rows());
  if (training_) changed_.Grow(map_.rows());
}

void Layer::GrowVectors(size_t rows) {
  weights_.Grow(rows * dim_);
  if (!KeepsMoments()) return;
  moment1_.Grow(rows * dim_);
  moment2_.Grow(rows * dim_);
}

void Layer::Reserve(SlotId slot) {
  const uint32_t before = map_.rows();
  map_.Reserve(slot);
  try {
    Grow();
  } catch (const std::bad_alloc&) {
    map_.Release(slot);
    if (map_.rows() > before) map_.DropLastRegion();  // which not all arrays have
    throw;
  }
}

bool Layer::Widen(uint64_t total) {
  DSLIDE_CHECK(most_places_ == 0);
  const uint32_t before = map_.rows_per_slot();
  std::vector<uint32_t> sizes;
  for (const SlotId slot : map_.owned()) sizes.push_back(map_.SlotSize(slot));
  const bool moved = map_.Widen(total);
  const uint32_t after = map_.rows_per_slot();
  if (moved && map_.rows() > 0) {
    const uint32_t regions = map_.rows() / after;
    weights_.Spread(size_t{before} * dim_, size_t{after} * dim_, regions);
    if (KeepsMoments()) {
      moment1_.Spread(size_t{before} * dim_, size_t{after} * dim_, regions);
      moment2_.Spread(size_t{before} * dim_, size_t{after} * dim_, regions);
    }
    scalars_.Spread(before, after, regions);
    if (keeps_mass_) masses_.Spread(before, after, regions);
    if (training_) changed_.Spread(before, after, regions);
  }
  for (size_t i = 0; training_ && i < sizes.size(); ++i) {
    const SlotId slot = map_.owned()[i];
    for (uint32_t row = sizes[i]; row < map_.SlotSize(slot); ++row) {
      changed_.MarkChanged(map_.LocalRow(slot, row));
    }
  }
  return moved;
}

void Layer::BeginAnew(uint32_t row, uint64_t seed, float deviation) {
  Clear(row);
  InitialiseRow(row, seed, deviation, dim_);
}

Layer::Typical Layer::TypicalOf(SlotId slot) const {
  std::vector<uint32_t> learned;
  for (uint32_t r = 0; r < map_.SlotSize(slot); ++r) {
    const RowScalars& scalars = scalars_[map_.LocalRow(slot, r)];
    if (scalars.steps > 0 && !IsSilent(scalars.bias)) learned.push_back(map_.LocalRow(slot, r));
  }
  Typical typical;
  if (learned.empty()) return typical;
  const float share = 1.0f / static_cast<float>(learned.size());
  typical.weights.resize(dim_);
  std::vector<float> weights(dim_), accumulated;
  for (const uint32_t row : learned) {
    Gather({&row, 1}, weights.data());
    for (uint32_t j = 0; j < dim_; ++j) typical.weights[j] += share * weights[j];
    typical.bias += share * scalars_[row].bias;
    accumulated.push_back(scalars_[row].moment2);
  }
  std::ranges::sort(accumulated);
  typical.accumulated = accumulated[accumulated.size() / 2];
  return typical;
}

void Layer::BeginAs(uint32_t row, const Typical& typical) {
  Clear(row);
  SetWeights(row, typical.weights.data());
  scalars_[row].bias = typical.bias;
  if (moments_ == 0) scalars_[row].moment2 = typical.accumulated;
}

void Layer::Silence(uint32_t row) {
  Clear(row);
  scalars_[row].bias = kSilentBias;
  if (keeps_mass_) masses_[row] = std::numeric_limits<float>::min();  // as what has no mass
}

void Layer::Clear(uint32_t row) {
  changed_.BeforeChange(row);
  ForEachVector(ChangingPlaceOf(row), [](uint8_t* memory, size_t bytes) {
    if (memory != nullptr) std::memset(memory, 0, bytes);
  });
  scalars_[row] = {};
  if (keeps_mass_) masses_[row] = 0;
}

void Layer::Attach(SlotId slot) {
  map_.Attach(slot);
  const uint32_t begin = map_.RegionBegin(slot);
  const uint32_t rows = map_.RegionRows(slot);
  if (training_ && rows > 0) changed_.Renew(begin, begin + rows);
}

void Layer::Release(SlotId slot) {
  const size_t begin = map_.RegionBegin(slot), end = begin + map_.RegionRows(slot);
  map_.Release(slot);
  if (tier_ != nullptr) {
    tier_->Reset(static_cast<uint32_t>(begin), static_cast<uint32_t>(end), false);
  } else {
    weights_.GiveBack(begin * dim_, end * dim_);
    if (KeepsMoments()) {
      moment1_.GiveBack(begin * dim_, end * dim_);
      moment2_.GiveBack(begin * dim_, end * dim_);
    }
  }
  scalars_.GiveBack(begin, end);
  if (keeps_mass_) masses_.GiveBack(begin, end);
}

template <typename Weight, typename Moment>
RowOf<Weight, Moment> Layer::ViewOf(uint32_t row) {
  const size_t at = size_t{ChangingPlaceOf(row)} * dim_;
  const bool moments = KeepsMoments();
  return {reinterpret_cast<Weight*>(weights_.At(at)),
          moments ? reinterpret_cast<Moment*>(moment1_.At(at)) : nullptr,
          moments ? reinterpret_cast<Moment*>(moment2_.At(at)) : nullptr, &scalars_[row]};
}

RowView Layer::row(uint32_t row) {
  DSLIDE_CHECK(!bf16());
  return ViewOf<float, float>(row);
}

const float* Layer::weights(uint32_t row) const {
  DSLIDE_CHECK(!bf16());
  return weights_.fp32.data() + size_t{PlaceOf(row)} * dim_;
}

void Layer::Update(uint32_t row, float learning_rate, const float* gradient, float bias_gradient,
                   bool decay) {
  changed_.BeforeChange(row);
  const Optimizer::Step step{learning_rate, gradient, bias_gradient, decay};
  if (!bf16()) return optimizer_.Apply(step, dim_, ViewOf<float, float>(row), 0);
  // Rounding depends on the row's id and step alone, not on where the row lives.
  const uint64_t id = map_.Global(row);
  const auto noise =
      static_cast<uint32_t>(SubSeed(id << 8 | static_cast<uint64_t>(kind_), scalars_[row].steps));
  if (narrow_moments_) return optimizer_.Apply(step, dim_, ViewOf<uint16_t, uint16_t>(row), noise);
  optimizer_.Apply(step, dim_, ViewOf<uint16_t, float>(row), noise);
}

void Layer::AddToCentroid(uint32_t row, const float* units, uint32_t samples, uint32_t pass,
                          float length) {
  changed_.BeforeChange(row);
  RowScalars& scalars = scalars_[row];
  const auto this_pass = static_cast<float>(pass);
  if (scalars.moment2 != this_pass) scalars = {scalars.bias, 0.0f, this_pass, 0};
  std::vector<float> sum(dim_);
  Gather({&row, 1}, sum.data());
  for (float& w : sum) w *= scalars.moment1 / length;
  kernels_.axpy(dim_, 1.0f, units, sum.data());
  scalars.steps += samples;
  scalars.moment1 = std::sqrt(kernels_.dot(dim_, sum.data(), sum.data()));
  if (scalars.moment1 == 0) return;
  for (float& w : sum) w *= length / scalars.moment1;
  SetWeights(row, sum.data());
}

void Layer::ObserveMass(uint32_t row, float mass) {
  constexpr float kNewShare = 0.1f;  // of a batch in the running mean
  float& kept = masses_[row];
  const float observed = std::max(mass, std::numeric_limits<float>::min());  // 0: nothing yet
  kept = kept == 0 ? observed : kept + kNewShare * (observed - kept);
}

void Layer::Gather(std::span<const uint32_t> rows, float* out) const {
  const size_t ahead = PrefetchDistance(WeightBytes());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + ahead < rows.size()) PrefetchWeights(rows[i + ahead]);
    const size_t at = size_t{PlaceOf(rows[i])} * dim_;
    if (bf16()) {
      kernels_.from_bf16(dim_, weights_.bf16.data() + at, out + i * dim_);
    } else {
      std::memcpy(out + i * dim_, weights_.fp32.data() + at, WeightBytes());
    }
  }
}

void Layer::Gather(std::span<const uint32_t> rows, uint16_t* out) const {
  const size_t ahead = PrefetchDistance(WeightBytes());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + ahead < rows.size()) PrefetchWeights(rows[i + ahead]);
    const size_t at = size_t{PlaceOf(rows[i])} * dim_;
    if (bf16()) {
      std::memcpy(out + i * dim_, weights_.bf16.data() + at, WeightBytes());
    } else {
      kernels_.to_bf16(dim_, weights_.fp32.data() + at, out + i * dim_);
    }
  }
}

const float* Layer::Range(uint32_t begin, uint32_t end, std::vector<float>* scratch) const {
  if (!bf16() && tier_ == nullptr) return weights(begin);
  const size_t elements = size_t{end - begin} * dim_;
  scratch->resize(std::max(scratch->size(), elements));
  if (tier_ == nullptr) {
    kernels_.from_bf16(elements, weights_.bf16.data() + size_t{begin} * dim_, scratch->data());
    return scratch->data();
  }
  for (uint32_t row = begin; row < end; ++row) {
    float* out = scratch->data() + size_t{row - begin} * dim_;
    const uint8_t* in = WeightsToRead(row);
    if (bf16()) {
      kernels_.from_bf16(dim_, reinterpret_cast<const uint16_t*>(in), out);
    } else {
      std::memcpy(out, in, WeightBytes());
    }
  }
  return scratch->data();
}

float Layer::Dot(uint32_t row, const float* x) const {
  const uint8_t* weights = WeightsToRead(row);
  return bf16() ? kernels_.dot_bf16(dim_, x, reinterpret_cast<const uint16_t*>(weights))
                : kernels_.dot(dim_, x, reinterpret_cast<const float*>(weights));
}

void Layer::WeightedSum(std::span<const uint32_t> rows, const float* factors, float* out) const {
  if (tier_ != nullptr) return SumFromTier(rows, factors, out);
  SumOfPlaces(rows, factors, weights_.At(0), out);
}

// `rows` number the rows of weights [? x dim].
void Layer::SumOfPlaces(std::span<const uint32_t> rows, const float* factors,
                        const uint8_t* weights, float* out) const {
  if (bf16()) {
    kernels_.weighted_sum_bf16(dim_, rows.size(), rows.data(), factors,
                               reinterpret_cast<const uint16_t*>(weights), dim_, out);
  } else {
    kernels_.weighted_sum(dim_, rows.size(), rows.data(), factors,
                          reinterpret_cast<const float*>(weights), dim_, out);
  }
}

void Layer::PrefetchWeights(uint32_t row) const {
  const uint32_t place = tier_ == nullptr ? row : tier_->Find(row);
  if (place != RowTier::kNowhere) Prefetch(weights_.At(size_t{place} * dim_), WeightBytes());
}

void Layer::PrefetchAll(uint32_t row) const {
  const uint32_t place = tier_ == nullptr ? row : tier_->Find(row);
  if (place == RowTier::kNowhere) return;
  const size_t at = size_t{place} * dim_;
  Prefetch(weights_.At(at), WeightBytes());
  if (KeepsMoments()) {
    Prefetch(moment1_.At(at), VectorBytes(narrow_moments_));
    Prefetch(moment2_.At(at), VectorBytes(narrow_moments_));
  }
  __builtin_prefetch(&scalars_[row]);
}

void Layer::Initialise(uint64_t seed, float deviation, uint32_t drawn) {
  if (tier_ != nullptr) {
    draw_ = {seed, deviation, drawn};
    return tier_->Reset(0, map_.rows(), true);
  }
  for (uint32_t r = 0; r < map_.rows(); ++r) {
    const uint32_t id = map_.Global(r);
    if (id != SlotMap::kNone && id < drawn) InitialiseRow(r, seed, deviation, dim_);
  }
}

void Layer::InitialiseRow(uint32_t row, uint64_t seed, float deviation, uint32_t columns) {
  SetWeights(row, Drawn(map_.Global(row), {seed, deviation}, columns).data());
}

// The first weights of an id, [dim].
std::vector<float> Layer::Drawn(uint32_t id, const Draw& draw, uint32_t columns) const {
  Random random(SubSeed(SubSeed(draw.seed, static_cast<uint64_t>(kind_)), id));
  // Four 16-bit uniforms have variance 4/12 * 65536^2 and mean 2 * 65535.
  const float scale = draw.deviation / (65536.0f * 0.57735027f);
  std::vector<float> w(dim_);
  for (uint32_t j = 0; j < columns; ++j) {
    const uint64_t x = random.Next();
    const auto sum = static_cast<int32_t>((x & 0xffff) + ((x >> 16) & 0xffff) +
                                          ((x >> 32) & 0xffff) + (x >> 48));
    w[j] = static_cast<float>(sum - 131070) * scale;
  }
  return w;
}

void Layer::SetWeights(uint32_t row, const float* weights) {
  PutWeights(weights, weights_.At(size_t{ChangingPlaceOf(row)} * dim_));
}

void Layer::PutWeights(const float* weights, uint8_t* out) const {
  if (bf16()) {
    kernels_.to_bf16(dim_, weights, reinterpret_cast<uint16_t*>(out));
  } else {
    std::copy_n(weights, dim_, reinterpret_cast<float*>(out));
  }
}

size_t Layer::StateBytes() const { return training_ ? moments_ * VectorBytes(narrow_moments_) : 0; }

size_t Layer::RowBytes() const {
  return sizeof(RowScalars) + WeightBytes() + moments_ * VectorBytes(narrow_moments_) + MassBytes();
}

uint64_t Layer::MemoryBytes() const {
  const uint64_t vectors = WeightBytes() + StateBytes(), rest = sizeof(RowScalars) + MassBytes();
  if (tier_ != nullptr) {
    return vectors * tier_->places() + tier_->MemoryBytes() + rest * map_.rows();
  }
  return (vectors + rest) * map_.rows_per_slot() * map_.regions();
}

// Vectors that are in the arrays.
template <typename Copy>
void Layer::ForEachVector(uint32_t place, const Copy& copy) {
  const size_t at = size_t{place} * dim_;
  copy(weights_.At(at), WeightBytes());
  if (moments_ == 0) return;
  copy(training_ ? moment1_.At(at) : nullptr, VectorBytes(narrow_moments_));
  copy(training_ ? moment2_.At(at) : nullptr, VectorBytes(narrow_moments_));
}

void Layer::StoreRow(uint32_t row, uint8_t* out) {
  DSLIDE_CHECK(training_);
  const auto append = [&](const void* memory, size_t bytes) {
    std::memcpy(out, memory, bytes);
    out += bytes;
  };
  append(&scalars_[row], sizeof(RowScalars));
  if (tier_ == nullptr) {
    ForEachVector(row, append);
  } else {
    append(tier_->Peek(row, *this), WeightBytes() + StateBytes());
  }
  if (keeps_mass_) append(&masses_[row], sizeof(float));
}

void Layer::LoadRow(uint32_t row, std::span<const uint8_t> in) {
  DSLIDE_CHECK(in.size() >= RowBytesWithoutMass());
  const auto take = [&](void* memory, size_t bytes) {
    if (memory != nullptr) std::memcpy(memory, in.data(), bytes);
    in = in.subspan(bytes);
  };
  take(&scalars_[row], sizeof(RowScalars));
  if (tier_ == nullptr) {
    ForEachVector(row, take);
  } else {
    tier_->Put(row, in.data());
    in = in.subspan(WeightBytes() + StateBytes());
  }
  if (!keeps_mass_) return;
  masses_[row] = 0;
  if (in.size() >= sizeof(float)) take(&masses_[row], sizeof(float));
}

}  // namespace dslide
