#include "server/model/lsh/simhash.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"

namespace dslide {
namespace {

constexpr size_t kBatch = 64;  // vectors projected at once: bounds the scratch

// [hashes x dim] of -1 and +1.
std::vector<float> DrawSigns(size_t hashes, size_t dim, uint64_t seed) {
  Random random(seed);
  std::vector<float> signs(hashes * dim);
  for (float& sign : signs) sign = random.Below(2) == 0 ? -1.0f : 1.0f;
  return signs;
}

class SimHash final : public HashFunctions {
 public:
  SimHash(const HashConfig& config, uint32_t dim, uint64_t seed, const Kernels& kernels)
      : HashFunctions(config.tables, config.k),
        kernels_(kernels),
        dim_(dim),
        signs_(DrawSigns(hashes(), dim, seed)) {}

  void Codes(size_t count, const float* x, size_t stride, BucketCode* codes) const override {
    thread_local std::vector<float> projections;  // [kBatch x hashes]
    projections.resize(kBatch * hashes());
    for (size_t i = 0; i < count; i += kBatch) {
      const size_t rows = std::min(kBatch, count - i);
      kernels_.gemm_nt(rows, hashes(), dim_, x + i * stride, stride, signs_.data(), dim_,
                       projections.data(), hashes(), false);
      PackCodes(rows, projections.data(), codes + i * tables());
    }
  }

 private:
  size_t hashes() const { return size_t{tables()} * bits(); }

  void PackCodes(size_t rows, const float* projections, BucketCode* codes) const {
    for (size_t code = 0; code < rows * tables(); ++code) {
      uint32_t packed = 0;
      for (size_t bit = 0; bit < bits(); ++bit) {
        packed = (packed << 1) | (projections[code * bits() + bit] >= 0.0f ? 1u : 0u);
      }
      codes[code] = static_cast<BucketCode>(packed);
    }
  }

  const Kernels& kernels_;
  const uint32_t dim_;
  const std::vector<float> signs_;
};

}  // namespace

std::unique_ptr<HashFunctions> MakeSimHash(const HashConfig& config, uint32_t dim, uint64_t seed,
                                           const Kernels& kernels) {
  DSLIDE_CHECK(config.k <= kMaxCodeBits);
  return std::make_unique<SimHash>(config, dim, seed, kernels);
}

}  // namespace dslide
