#include "server/model/lsh/dwta.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "common/base/random.h"

namespace dslide::dwta_test {
namespace {

constexpr uint64_t kSeed = 20240607;

std::vector<const Kernels*> AvailableKernels() {
  std::vector<const Kernels*> available;
  for (const char* name : {"scalar", "avx2", "avx512"}) {
    if (const Kernels* kernels = KernelsByName(name)) available.push_back(kernels);
  }
  return available;
}

HashConfig ConfigOf(uint32_t k, uint32_t tables, uint32_t bin = 8) {
  HashConfig config;
  config.k = k;
  config.tables = tables;
  config.bin = bin;
  return config;
}

Dwta Make(const HashConfig& config, uint32_t dim) {
  return Dwta(config, dim, kSeed, BestKernels());
}

using Codes = std::vector<BucketCode>;

Codes CodesOf(const Dwta& hashes, const std::vector<float>& x) {
  Codes codes(hashes.tables());
  hashes.Codes(1, x.data(), x.size(), codes.data());
  return codes;
}

std::vector<float> NormalVector(size_t dim, Random* random) {
  std::vector<float> x(dim);
  for (float& value : x) value = static_cast<float>(random->Normal());
  return x;
}

// Small integers, many of them zero: sums of them are exact whatever the order of the additions.
std::vector<float> IntegerVector(size_t dim, Random* random) {
  std::vector<float> x(dim);
  for (float& value : x) {
    value = random->Below(2) == 0 ? 0.0f : static_cast<float>(random->Below(17)) - 8.0f;
  }
  return x;
}

double AgreeingShare(const Codes& x, const Codes& y) {
  size_t agreeing = 0;
  for (size_t i = 0; i < x.size(); ++i) agreeing += x[i] == y[i];
  return static_cast<double>(agreeing) / static_cast<double>(x.size());
}

// Four standard deviations of a share that is estimated from n draws.
double Bound(double share, double n) { return 4 * std::sqrt(share * (1 - share) / n) + 1e-9; }

size_t Winner(const std::vector<float>& x, const std::vector<size_t>& bin) {
  size_t best = 0;
  for (size_t j = 1; j < bin.size(); ++j) {
    if (x[bin[j]] > x[bin[best]]) best = j;
  }
  return best;
}

// The share of random bins of `size` coordinates whose largest is the same in x and y.
double BruteForceAgreement(const std::vector<float>& x, const std::vector<float>& y, size_t size) {
  constexpr int kBins = 50000;
  std::mt19937 generator(7);
  std::vector<size_t> coordinates(x.size());
  std::iota(coordinates.begin(), coordinates.end(), size_t{0});
  int agreeing = 0;
  for (int i = 0; i < kBins; ++i) {
    std::vector<size_t> bin;
    std::sample(coordinates.begin(), coordinates.end(), std::back_inserter(bin), size, generator);
    agreeing += Winner(x, bin) == Winner(y, bin);
  }
  return static_cast<double>(agreeing) / kBins;
}

TEST_CASE("DWTA: two vectors agree on a bin as often as on a random one") {
  constexpr size_t kDim = 100;
  constexpr uint32_t kHashes = 20000;
  Random random(2);
  const std::vector<float> x = NormalVector(kDim, &random);
  const std::vector<float> noise = NormalVector(kDim, &random);
  for (uint32_t bin : {2u, 4u, 8u, 16u}) {
    CAPTURE(bin);
    const auto hashes = Make(ConfigOf(1, kHashes, bin), kDim);
    for (float weight : {0.2f, 1.0f, 5.0f}) {
      std::vector<float> y(kDim);
      for (size_t d = 0; d < kDim; ++d) y[d] = x[d] + weight * noise[d];
      const double expected = BruteForceAgreement(x, y, bin);
      // Twice: the reference is an estimate as well. (Disjoint bins vary less than random ones.)
      CHECK(std::abs(AgreeingShare(CodesOf(hashes, x), CodesOf(hashes, y)) - expected) <
            2 * Bound(expected, kHashes));
    }
  }
}

TEST_CASE("DWTA depends on the order of the coordinates only") {
  constexpr size_t kDim = 50;
  const auto hashes = Make(ConfigOf(1, 1000), kDim);
  Random random(3);
  const std::vector<float> x = NormalVector(kDim, &random);
  std::vector<float> y = x;
  for (float& value : y) value = std::exp(2 * value) + 1;
  CHECK(CodesOf(hashes, x) == CodesOf(hashes, y));
}

TEST_CASE("every bucket of every table is reachable") {
  constexpr size_t kDim = 64;
  // About 24 a bucket: the codes are uniform, because the bins of a table are disjoint.
  constexpr size_t kVectors = 12000;
  constexpr uint32_t kTables = 6;
  Random random(5);
  std::vector<float> x;
  for (size_t i = 0; i < kVectors; ++i) {
    const std::vector<float> vector = NormalVector(kDim, &random);
    x.insert(x.end(), vector.begin(), vector.end());
  }
  for (const HashConfig& config :
       {ConfigOf(3, kTables, 8), ConfigOf(2, kTables, 16), ConfigOf(9, kTables, 2)}) {
    const auto hashes = Make(config, kDim);
    Codes codes(kVectors * kTables);
    hashes.Codes(kVectors, x.data(), kDim, codes.data());
    std::vector<int> sizes(size_t{kTables} * hashes.buckets());
    for (size_t i = 0; i < codes.size(); ++i) {
      REQUIRE(codes[i] < hashes.buckets());
      ++sizes[i % kTables * hashes.buckets() + codes[i]];
    }
    CHECK(std::count(sizes.begin(), sizes.end(), 0) == 0);
  }
}

// Two vectors with 20 ones each in 1,000 dimensions, `shared` of them at the same places.
std::array<std::vector<float>, 2> SparsePair(size_t shared) {
  constexpr size_t kOnes = 20;
  std::array<std::vector<float>, 2> pair = {std::vector<float>(1000), std::vector<float>(1000)};
  for (size_t i = 0; i < kOnes; ++i) {
    pair[0][i * 37] = 1.0f;
    pair[1][i * 37 + (i < shared ? 0 : 1)] = 1.0f;
  }
  return pair;
}

TEST_CASE("DWTA densification: collisions of sparse vectors rise with their overlap") {
  const auto hashes = Make(ConfigOf(1, 5000), 1000);
  double last = 0;
  for (size_t shared : {0, 5, 10, 15, 20}) {
    const auto [x, y] = SparsePair(shared);
    const double share = AgreeingShare(CodesOf(hashes, x), CodesOf(hashes, y));
    CHECK(share > last + 0.05);
    last = share;
  }
  CHECK(last == 1.0);
}

TEST_CASE("DWTA densification spreads the codes of sparse vectors") {
  const auto hashes = Make(ConfigOf(1, 5000), 1000);
  const Codes codes = CodesOf(hashes, SparsePair(0)[0]);
  for (uint32_t code = 0; code < 8; ++code) {
    const double share = static_cast<double>(std::count(codes.begin(), codes.end(), code)) / 5000.0;
    CHECK(share == doctest::Approx(1.0 / 8).epsilon(0.3));
  }
}

TEST_CASE("the zero vector and a single non-zero coordinate have codes in range") {
  for (uint32_t dim : {1u, 3u, 8u, 500u}) {
    const auto hashes = Make(ConfigOf(3, 20), dim);
    std::vector<float> x(dim);
    const Codes zero = CodesOf(hashes, x);
    CHECK(zero == CodesOf(hashes, x));
    x[dim / 2] = -1.0f;
    const Codes single = CodesOf(hashes, x);
    for (size_t t = 0; t < zero.size(); ++t) {
      CHECK(zero[t] < hashes.buckets());
      CHECK(single[t] < hashes.buckets());
    }
  }
}

TEST_CASE("DWTA codes of the zero vector do not all name the same bucket") {
  const auto hashes = Make(ConfigOf(3, 50), 100);
  const Codes codes = CodesOf(hashes, std::vector<float>(100));
  CHECK(std::count(codes.begin(), codes.end(), codes[0]) < 10);
}

TEST_CASE("codes of a batch equal those one by one, for all kernels and strides") {
  constexpr size_t kDim = 37;
  constexpr size_t kStride = 41;
  constexpr size_t kLargest = 40;
  Random random(6);
  std::vector<float> x(kLargest * kStride);
  for (size_t i = 0; i < kLargest; ++i) {
    if (i % 7 == 3) continue;  // a zero vector
    const std::vector<float> row =
        i % 2 == 0 ? NormalVector(kDim, &random) : IntegerVector(kDim, &random);
    std::copy(row.begin(), row.end(), x.begin() + static_cast<ptrdiff_t>(i * kStride));
  }
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    const Dwta hashes(ConfigOf(3, 11), kDim, kSeed, *kernels);
    const size_t tables = hashes.tables();
    Codes single(kLargest * tables);
    for (size_t i = 0; i < kLargest; ++i) {
      hashes.Codes(1, x.data() + i * kStride, kStride, single.data() + i * tables);
    }
    for (size_t n = 1; n <= kLargest; ++n) {
      Codes batch(n * tables);
      hashes.Codes(n, x.data(), kStride, batch.data());
      CHECK(std::equal(batch.begin(), batch.end(), single.begin()));
    }
  }
}

TEST_CASE("codes are a function of the seed") {
  const HashConfig config = ConfigOf(2, 40);
  Random random(8);
  const std::vector<float> x = NormalVector(64, &random);
  const Dwta other(config, 64, kSeed + 1, BestKernels());
  CHECK(CodesOf(Make(config, 64), x) == CodesOf(Make(config, 64), x));
  CHECK(AgreeingShare(CodesOf(Make(config, 64), x), CodesOf(other, x)) < 0.2);
}

// Checkpoints store codes and rely on every build to compute the same ones.
TEST_CASE("golden codes") {
  struct Golden {
    HashConfig config;
    uint32_t dim;
    Codes codes;
  };
  const Golden goldens[] = {
      {ConfigOf(4, 8, 8), 128, {1221, 3533, 3666, 1998, 3951, 2643, 351, 985}},
      {ConfigOf(3, 8, 16), 20, {1314, 2128, 304, 1590, 1645, 1749, 2578, 933}},
      {ConfigOf(2, 8, 8), 5, {0, 11, 10, 24, 4, 18, 19, 34}},
  };
  for (const Golden& golden : goldens) {
    CAPTURE(golden.dim);
    Random random(9);
    const std::vector<float> x = IntegerVector(golden.dim, &random);
    for (const Kernels* kernels : AvailableKernels()) {
      CAPTURE(kernels->name);
      CHECK(CodesOf(Dwta(golden.config, golden.dim, kSeed, *kernels), x) == golden.codes);
    }
  }
  const auto hashes = Make(ConfigOf(4, 4), 128);
  CHECK(CodesOf(hashes, std::vector<float>(128)) == Codes{2717, 3053, 1476, 3898});
}

}  // namespace
}  // namespace dslide::dwta_test
