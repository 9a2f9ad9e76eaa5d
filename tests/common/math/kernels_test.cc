#include "common/math/kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "tests/common/math/kernel_arrays.h"
#include "tests/support/floats.h"

namespace dslide::kernels_test {
namespace {

constexpr size_t kGuards = 16;

TEST_CASE("the best kernels are the widest available") {
  CHECK(BestKernels().name == AvailableKernels().back()->name);
  CHECK(KernelsByName("scalar") != nullptr);
  CHECK(KernelsByName("sse9") == nullptr);
}

template <typename T, typename Dot>
void CheckDot(Dot Kernels::*dot) {
  Random random(1);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array x(n, offset, &random, -1, 1);
    ArrayOf<T> y(n, offset / 2, &random, -1, 1);
    double expected = 0, magnitude = 0;
    for (size_t i = 0; i < n; ++i) {
      const double product = double{x[i]} * double{ToFloat(y[i])};
      expected += product;
      magnitude += std::abs(product);
    }
    CHECK(Near((kernels.*dot)(n, x.data(), y.data()), expected, 1e-6 * magnitude));
  });
}

TEST_CASE("dot, of floats and of bf16") {
  CheckDot<float>(&Kernels::dot);
  CheckDot<uint16_t>(&Kernels::dot_bf16);
}

TEST_CASE("axpy") {
  Random random(2);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array x(n, offset, &random, -1, 1);
    Array y(n, offset / 2, &random, -1, 1);
    const Array before = y;
    kernels.axpy(n, 0.3f, x.data(), y.data());
    for (size_t i = 0; i < n; ++i) {
      REQUIRE(Near(y[i], double{before[i]} + double{0.3f} * double{x[i]}, 2e-7));
    }
    CHECK(y.GuardsIntact());
  });
}

TEST_CASE("max") {
  Random random(3);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array x(n, offset, &random, -2, -1);
    if (n == 0) {
      CHECK(kernels.max(n, x.data()) == -kInfinity);
      return;
    }
    CHECK(kernels.max(n, x.data()) == *std::max_element(x.data(), x.data() + n));
    // The largest at every position, so that no lane and no tail is left out.
    for (size_t at = 0; at < std::min<size_t>(n, 70); ++at) {
      const float kept = x[at];
      x.data()[at] = 5.0f;
      REQUIRE(kernels.max(n, x.data()) == 5.0f);
      x.data()[at] = kept;
    }
  });
}

template <typename T, typename Sum>
void CheckWeightedSum(Sum Kernels::*weighted_sum) {
  constexpr size_t kRows = 7;
  Random random(14);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    const size_t stride = n + offset;
    ArrayOf<T> x(kRows * stride, offset, &random, -1, 1);
    const std::vector<uint32_t> rows = {3, 0, 3, 6, 1};
    const std::vector<float> weights = {0.5f, -2.0f, 1.0f, 0.0f, 3.0f};
    for (const size_t count : {rows.size(), size_t{0}}) {
      Array out(n, offset / 2);
      (kernels.*weighted_sum)(n, count, rows.data(), weights.data(), x.data(), stride, out.data());
      for (size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (size_t e = 0; e < count; ++e) {
          sum += double{weights[e]} * double{ToFloat(x[rows[e] * stride + i])};
        }
        REQUIRE(Near(out[i], sum, 1e-6 * 6.5));
      }
      CHECK(out.GuardsIntact());
    }
  });
}

TEST_CASE("weighted_sum, of floats and of bf16") {
  CheckWeightedSum<float>(&Kernels::weighted_sum);
  CheckWeightedSum<uint16_t>(&Kernels::weighted_sum_bf16);
}

TEST_CASE("exp_sum is accurate to 1e-6 over the range of normal floats") {
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    std::vector<float> x;
    for (int i = -870000; i <= 880000; i += 7) x.push_back(static_cast<float>(i) * 1e-4f);
    for (float tiny : {0.0f, -0.0f, 1e-30f, -1e-8f, 1e-7f}) x.push_back(tiny);
    std::vector<float> y = x;
    (void)kernels->exp_sum(y.size(), 0.0f, y.data());
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(double{x[i]});
      worst = std::max(worst, std::abs(double{y[i]} - expected) / expected);
    }
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("exp_sum underflows to zero, saturates and keeps NaN") {
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    const float x[] = {-kInfinity, -1e30f, -1000.0f, -104.0f, -90.0f, -87.4f};
    for (float value : x) {
      float y = value;
      CHECK(kernels->exp_sum(1, 0.0f, &y) == 0.0f);
      CHECK(y == 0.0f);
    }
    for (float value : {89.0f, 1000.0f, 1e30f, kInfinity}) {
      std::vector<float> y(17, value);
      (void)kernels->exp_sum(y.size(), 0.0f, y.data());
      CHECK(
          std::all_of(y.begin(), y.end(), [](float e) { return e > 1.6e38f && std::isfinite(e); }));
    }
    std::vector<float> nans(17, kNan);
    (void)kernels->exp_sum(nans.size(), 0.0f, nans.data());
    CHECK(std::all_of(nans.begin(), nans.end(), [](float e) { return std::isnan(e); }));
  }
}

TEST_CASE("exp_sum and scale_add") {
  Random random(4);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    constexpr float kShift = 3.0f;
    constexpr float kScale = 0.25f;
    Array x(n, offset, &random, -20, 3);
    Array sums(n, offset / 2, &random, -1, 1);
    std::vector<double> expected(n);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) {
      expected[i] = std::exp(double{x[i]} - double{kShift});
      sum += expected[i];
    }
    // The subtraction rounds too: 2^-24 of up to 23.
    CHECK(Near(kernels.exp_sum(n, kShift, x.data()), sum, 3e-6 * sum));
    for (size_t i = 0; i < n; ++i) REQUIRE(Near(x[i], expected[i], 3e-6 * expected[i]));
    const std::vector<float> before(x.data(), x.data() + n);
    const std::vector<float> old(sums.data(), sums.data() + n);
    kernels.scale_add(n, kScale, x.data(), sums.data());
    for (size_t i = 0; i < n; ++i) {
      REQUIRE(x[i] == kScale * before[i]);
      REQUIRE(sums[i] == old[i] + x[i]);
    }
    CHECK(x.GuardsIntact());
    CHECK(sums.GuardsIntact());
  });
}

TEST_CASE("sparsify keeps large elements, and small ones at random without bias") {
  Random random(6);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    constexpr float kScale = 0.5f, kOther = 0.25f, kThreshold = 0.25f;
    constexpr uint32_t kRounds = 64;
    Array x(n, offset, &random, 0, 1);  // scaled, half of them are below the threshold
    if (n > 2) x.data()[2] = 0;
    Array z(n, offset / 3, &random, 0, 1);
    if (n > 2) z.data()[2] = 0;
    const auto element = [&](size_t i) { return kScale * x[i] - kOther * z[i]; };
    Array sums(n, offset / 2, &random, -1, 1);
    std::vector<uint32_t> noises(n);
    for (uint32_t& noise : noises) noise = static_cast<uint32_t>(random.Next());
    std::vector<uint32_t> index(n + 1, 12345);
    std::vector<float> value(n + 1, 99);
    std::vector<double> means(n);
    const std::vector<float> old(sums.data(), sums.data() + n);
    for (uint32_t round = 0; round < kRounds; ++round) {
      // Evenly spaced, so every element's share is exact to 1 / kRounds.
      const uint32_t noise = round * (0xffffffffu / kRounds + 1);
      std::copy(old.begin(), old.end(), sums.data());
      const size_t count =
          kernels.sparsify(n, kScale, x.data(), kOther, z.data(), kThreshold, noise, noises.data(),
                           sums.data(), index.data(), value.data());
      REQUIRE(count <= n);
      CHECK(index[count] == (count == n ? 12345 : index[count]));
      for (size_t e = 0; e < count; ++e) {
        REQUIRE(index[e] < n);
        if (e > 0) REQUIRE(index[e] > index[e - 1]);
        const float exact = element(index[e]);
        REQUIRE(exact != 0);
        REQUIRE(Near(value[e], std::copysign(std::max(kThreshold, std::abs(exact)), exact), 1e-6));
        means[index[e]] += value[e] / double{kRounds};
      }
      for (size_t i = 0; i < n; ++i) REQUIRE(sums[i] == old[i] + kScale * x[i]);
    }
    for (size_t i = 0; i < n; ++i) {
      REQUIRE(Near(means[i], element(i), 1.001 * kThreshold / kRounds));
    }
    CHECK(sums.GuardsIntact());
  });
}

TEST_CASE("adam follows the formula in double") {
  Random random(5);
  const AdamStep step = {.step_size = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array g(n, offset, &random, -1, 1);
    Array w(n, offset / 2, &random, -1, 1);
    Array m(n, offset, &random, -0.1, 0.1);
    Array v(n, offset / 3, &random, 0, 0.1);
    if (n > 0) g.data()[0] = m.data()[0] = v.data()[0] = 0;  // 0 / epsilon moves nothing
    const Array w0 = w;
    const Array m0 = m;
    const Array v0 = v;
    kernels.adam(n, step, g.data(), w.data(), m.data(), v.data());
    if (n > 0) CHECK(w[0] == w0[0]);
    for (size_t i = 0; i < n; ++i) {
      const AdamReference exact = ExactAdam(step, g[i], w0[i], m0[i], v0[i]);
      REQUIRE(Near(m[i], exact.m, 1e-7));
      REQUIRE(Near(v[i], exact.v, 3e-7 * exact.v));
      REQUIRE(Near(w[i], exact.w, 2e-7));
    }
    CHECK((w.GuardsIntact() && m.GuardsIntact() && v.GuardsIntact()));
  });
}

struct Bf16Case {
  uint32_t bits;
  uint16_t expected;
};

TEST_CASE("to_bf16 rounds to nearest even, keeps infinity and NaN") {
  const Bf16Case cases[] = {
      {0x3f800000, 0x3f80},  // 1
      {0x3f808000, 0x3f80},  // tie, even below
      {0x3f818000, 0x3f82},  // tie, even above
      {0x3f808001, 0x3f81},  // above the tie
      {0x3f807fff, 0x3f80},  // below the tie
      {0x00000000, 0x0000}, {0x80000000, 0x8000},
      {0x7f7fffff, 0x7f80},  // the largest float rounds to infinity
      {0x7f800000, 0x7f80}, {0xff800000, 0xff80},
      {0x7f800001, 0x7fc0},  // a NaN whose payload is in the lost bits
      {0xffffffff, 0xffff}, {0xbf80ffff, 0xbf81},
  };
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    for (const Bf16Case& c : cases) {
      // In full vectors and in the tail.
      const std::vector<float> x(19, std::bit_cast<float>(c.bits));
      std::vector<uint16_t> y(x.size());
      kernels->to_bf16(x.size(), x.data(), y.data());
      CHECK(std::all_of(y.begin(), y.end(), [&](uint16_t h) { return h == c.expected; }));
    }
  }
}

TEST_CASE("bf16 conversions equal the scalar ones for all lengths") {
  Random random(6);
  const Kernels& scalar = *KernelsByName("scalar");
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array x(n, offset, &random, -100, 100);
    std::vector<uint16_t> expected(n + offset + kGuards, 0xabcd);
    std::vector<uint16_t> actual = expected;
    scalar.to_bf16(n, x.data(), expected.data() + offset);
    kernels.to_bf16(n, x.data(), actual.data() + offset);
    CHECK(actual == expected);
    Array back(n, offset);
    kernels.from_bf16(n, actual.data() + offset, back.data());
    CHECK(back.GuardsIntact());
    for (size_t i = 0; i < n; ++i) {
      REQUIRE(std::bit_cast<uint32_t>(back[i]) == uint32_t{actual[offset + i]} << 16);
    }
  });
}

TEST_CASE("wta16 picks the first of the largest non-zero values") {
  constexpr size_t kVectors = 16;
  // Rows of the block; every lane holds the same vector (2, 0, -1, 2, -3, 0).
  const float column[] = {2, 0, -1, 2, -3, 0};
  std::vector<float> block;
  for (float value : column) block.insert(block.end(), kVectors, value);
  const uint16_t coordinates[] = {
      4, 0, 3, 1,  // 2 at position 1 and 2: the first
      1, 4, 2, 5,  // zeros do not win over -1
      1, 5, 5, 1,  // empty
      3, 2, 1, 0,  // 2 at positions 0 and 3
      4, 1, 1, 1,  // only -3
  };
  const uint8_t expected[] = {1, 2, 0xff, 0, 0};
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    std::vector<uint8_t> codes(std::size(expected) * kVectors);
    kernels->wta16(std::size(expected), 4, coordinates, block.data(), codes.data());
    for (size_t i = 0; i < codes.size(); ++i) CHECK(codes[i] == expected[i / kVectors]);
  }
}

TEST_CASE("wta16 equals the scalar one on random sparse blocks") {
  constexpr size_t kVectors = 16;
  Random random(7);
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    for (size_t bin = 1; bin <= 16; ++bin) {
      const size_t dim = 1 + random.Below(100);
      const size_t hashes = random.Below(40);
      Array block(dim * kVectors, bin % 5);
      for (size_t i = 0; i < dim * kVectors; ++i) {
        block.data()[i] = static_cast<float>(random.Below(9)) - 4.0f;  // zeros and ties
      }
      std::vector<uint16_t> coordinates(hashes * bin);
      for (uint16_t& c : coordinates) c = static_cast<uint16_t>(random.Below(dim));
      std::vector<uint8_t> expected(hashes * kVectors);
      std::vector<uint8_t> actual(hashes * kVectors);
      KernelsByName("scalar")->wta16(hashes, bin, coordinates.data(), block.data(),
                                     expected.data());
      kernels->wta16(hashes, bin, coordinates.data(), block.data(), actual.data());
      CHECK(actual == expected);
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("FlushDenormals makes denormal results zero") {
  const unsigned kept = __builtin_ia32_stmxcsr();
  FlushDenormals();
  volatile float tiny = 1e-30f;
  volatile float product = tiny * 1e-10f;
  CHECK(product == 0.0f);
  __builtin_ia32_ldmxcsr(kept);
}
#endif

}  // namespace
}  // namespace dslide::kernels_test
