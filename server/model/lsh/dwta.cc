#include "server/model/lsh/dwta.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"

namespace dslide {
namespace {

constexpr size_t kLanes = 16;        // vectors that wta16 hashes at once
constexpr uint8_t kEmptyBin = 0xff;  // what wta16 gives for a bin of zeros
constexpr uint32_t kAttempts = 100;  // bins that an empty one tries to borrow from

// A number of [0, bound) for a (hash number, attempt).
size_t UniversalHash(size_t hash, uint32_t attempt, size_t bound) {
  return static_cast<size_t>(Random(Mix64(hash), attempt).Below(bound));
}

std::vector<uint16_t> Permutation(size_t dim, Random* random) {
  std::vector<uint16_t> permutation(dim);
  std::iota(permutation.begin(), permutation.end(), uint16_t{0});
  for (size_t i = dim; i > 1; --i) std::swap(permutation[i - 1], permutation[random->Below(i)]);
  return permutation;
}

// Hands out bins from successive random permutations of [0, dim).
class BinChooser {
 public:
  BinChooser(uint32_t dim, uint64_t seed) : dim_(dim), used_(dim), random_(seed) {}

  // Makes the next `count` coordinates distinct, if a permutation is that long.
  void Reserve(size_t count) {
    if (used_ > 0 && used_ + count > dim_) {
      permutation_ = Permutation(dim_, &random_);
      used_ = 0;
    }
  }

  // The next bin. A permutation shorter than a bin is repeated within it.
  void Choose(std::span<uint16_t> bin) {
    Reserve(bin.size());
    for (uint16_t& coordinate : bin) coordinate = permutation_[used_++ % dim_];
  }

 private:
  const size_t dim_;
  size_t used_;  // of the permutation
  Random random_;
  std::vector<uint16_t> permutation_;
};

// [tables x k x bin]. The bins of a table are disjoint where dim allows it: its hashes are then
// independent, and its buckets evenly used.
std::vector<uint16_t> ChooseCoordinates(const HashConfig& config, uint32_t dim, uint64_t seed) {
  const size_t hashes = size_t{config.tables} * config.k;
  std::vector<uint16_t> coordinates(hashes * config.bin);
  BinChooser chooser(dim, seed);
  for (size_t hash = 0; hash < hashes; ++hash) {
    if (hash % config.k == 0) chooser.Reserve(size_t{config.k} * config.bin);
    chooser.Choose({coordinates.data() + hash * config.bin, config.bin});
  }
  return coordinates;
}

HashConfig Checked(const HashConfig& config, uint32_t dim) {
  DSLIDE_CHECK(config.k > 0 && config.tables > 0 && dim > 0);
  DSLIDE_CHECK(std::has_single_bit(config.bin) && config.bin >= 2 && config.bin <= kLanes);
  DSLIDE_CHECK(dim <= std::numeric_limits<uint16_t>::max());
  DSLIDE_CHECK(uint64_t{config.k} * static_cast<uint64_t>(std::countr_zero(config.bin)) <=
               kMaxCodeBits);
  return config;
}

}  // namespace

struct Dwta::Scratch {
  std::vector<float> block;    // [dim x kLanes]
  std::vector<uint8_t> wta;    // [hashes x kLanes]
  std::vector<uint8_t> dense;  // [hashes], of one vector
};

Dwta::Dwta(const HashConfig& config, uint32_t dim, uint64_t seed, const Kernels& kernels)
    : kernels_(kernels),
      dim_(dim),
      tables_(config.tables),
      k_(config.k),
      bin_(config.bin),
      bits_(config.k * static_cast<uint32_t>(std::countr_zero(config.bin))),
      coordinates_(ChooseCoordinates(Checked(config, dim), dim, seed)) {}

void Dwta::Codes(size_t count, const float* x, size_t stride, BucketCode* codes) const {
  thread_local Scratch scratch;
  scratch.block.resize(dim_ * kLanes);
  scratch.wta.resize(hashes() * kLanes);
  scratch.dense.resize(hashes());
  for (size_t i = 0; i < count; i += kLanes) {
    const size_t lanes = std::min(kLanes, count - i);
    kernels_.transpose16(lanes, dim_, x + i * stride, stride, scratch.block.data());
    kernels_.wta16(hashes(), bin_, coordinates_.data(), scratch.block.data(), scratch.wta.data());
    Densify(lanes, &scratch);
    PackCodes(lanes, scratch.wta, codes + i * tables());
  }
}

void Dwta::Densify(size_t count, Scratch* scratch) const {
  // Codes of non-empty bins have a clear highest bit: `any` shows whether some bin is empty, `all`
  // whether every one is.
  uint8_t any[kLanes] = {};
  uint8_t all[kLanes];
  std::fill_n(all, kLanes, kEmptyBin);
  for (size_t hash = 0; hash < hashes(); ++hash) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      any[lane] |= scratch->wta[hash * kLanes + lane];
      all[lane] &= scratch->wta[hash * kLanes + lane];
    }
  }
  for (size_t lane = 0; lane < count; ++lane) {
    if (any[lane] != kEmptyBin) continue;
    DensifyLane(lane, all[lane] == kEmptyBin ? 0 : kAttempts, scratch);
  }
}

void Dwta::DensifyLane(size_t lane, uint32_t attempts, Scratch* scratch) const {
  // Into a copy: bins lend their own codes only, never borrowed ones.
  for (size_t hash = 0; hash < hashes(); ++hash) {
    scratch->dense[hash] = DenseCode(hash, lane, attempts, scratch->wta);
  }
  for (size_t hash = 0; hash < hashes(); ++hash) {
    scratch->wta[hash * kLanes + lane] = scratch->dense[hash];
  }
}

uint8_t Dwta::DenseCode(size_t hash, size_t lane, uint32_t attempts,
                        const std::vector<uint8_t>& wta) const {
  const uint8_t own = wta[hash * kLanes + lane];
  if (own != kEmptyBin) return own;
  for (uint32_t attempt = 1; attempt <= attempts; ++attempt) {
    const uint8_t code = wta[UniversalHash(hash, attempt, hashes()) * kLanes + lane];
    if (code != kEmptyBin) return code;
  }
  return static_cast<uint8_t>(UniversalHash(hash, 0, bin_));
}

void Dwta::PackCodes(size_t count, const std::vector<uint8_t>& wta, BucketCode* codes) const {
  const int bits_per_hash = std::countr_zero(bin_);
  for (size_t table = 0; table < tables(); ++table) {
    uint32_t packed[kLanes] = {};
    for (size_t hash = table * k_; hash < (table + 1) * k_; ++hash) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        packed[lane] = (packed[lane] << bits_per_hash) | wta[hash * kLanes + lane];
      }
    }
    for (size_t lane = 0; lane < count; ++lane) {
      codes[lane * tables() + table] = static_cast<BucketCode>(packed[lane]);
    }
  }
}

}  // namespace dslide
