// The kernels that round to int8 and back (kernels.h): every variant gives the bits of the scalar.
#include <cstring>
#include <limits>

#include "tests/common/math/kernel_arrays.h"

namespace dslide::kernels_int8_test {
namespace {

using ByteArray = ArrayOf<int8_t>;

constexpr float kInt8Scale = 0x1.8p-7f;

bool SameBits(const Array& a, const Array& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
bool SameBits(const ByteArray& a, const ByteArray& b) {
  return std::memcmp(a.data(), b.data(), a.size()) == 0;
}

// Zeros, ties, elements below half a step, and some beyond the range.
Array Elements(size_t n, size_t offset, Random* random) {
  Array x(n, offset, random, -1.6, 1.6);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t kind = random->Below(8);
    if (kind == 0) x.data()[i] = 0.0f;
    if (kind == 1) x.data()[i] = (static_cast<float>(random->Below(255)) - 127.5f) * kInt8Scale;
    if (kind == 2) x.data()[i] *= 0x1p-9f;
    if (kind == 3) x.data()[i] *= 2;
  }
  return x;
}

TEST_CASE("max_abs") {
  Random random(1);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array x(n, offset, &random, -1, 1);
    float expected = 0;
    for (size_t i = 0; i < n; ++i) expected = std::max(expected, std::abs(x[i]));
    CHECK(kernels.max_abs(n, x.data()) == expected);
    // The largest at every position, so that no lane and no tail is left out.
    for (size_t at = 0; at < std::min<size_t>(n, 70); ++at) {
      const float kept = x[at];
      for (const float largest : {5.0f, -5.0f, kInfinity, -kInfinity}) {
        x.data()[at] = largest;
        REQUIRE(kernels.max_abs(n, x.data()) == std::abs(largest));
      }
      x.data()[at] = std::numeric_limits<float>::quiet_NaN();
      REQUIRE(std::isnan(kernels.max_abs(n, x.data())));
      x.data()[at] = kept;
    }
  });
}

TEST_CASE("to_int8 rounds to nearest within the range and keeps what is not 0") {
  const Kernels& scalar = *KernelsByName("scalar");
  Random random(2);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    const Array x = Elements(n, offset, &random);
    ByteArray y(n, offset / 2), expected(n, 0);
    kernels.to_int8(n, x.data(), 1 / kInt8Scale, y.data());
    scalar.to_int8(n, x.data(), 1 / kInt8Scale, expected.data());
    REQUIRE(SameBits(y, expected));
    CHECK(y.GuardsIntact());
    for (size_t i = 0; i < n; ++i) {
      const double exact =
          std::nearbyint(std::clamp(double{x[i]} / double{kInt8Scale}, -127.0, 127.0));
      const bool lost = exact == 0 && x[i] != 0;
      // The product with the reciprocal may be on the other side of a tie.
      if (!lost)
        REQUIRE(std::abs(y[i] - std::clamp(double{x[i]} / double{kInt8Scale}, -127.0, 127.0)) <=
                0.5001);
      if (lost) REQUIRE(y[i] == (x[i] > 0 ? 1 : -1));
      REQUIRE((y[i] == 0) == (x[i] == 0));
    }
  });
}

TEST_CASE("to_int8 ties go to even") {
  const std::vector<float> x = {0.5f, 1.5f, 2.5f, -2.5f, 126.5f, 127.5f, -200.0f, -0.0f};
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    std::vector<int8_t> y(x.size());
    kernels->to_int8(x.size(), x.data(), 1.0f, y.data());
    CHECK(y == std::vector<int8_t>{1, 2, 2, -2, 126, 127, -127, 0});
  }
}

TEST_CASE("to_int8_carry loses nothing") {
  const Kernels& scalar = *KernelsByName("scalar");
  Random random(3);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array carry(n, offset / 3, &random, -1, 1);
    Array expected_carry = carry;
    // Several rows with other scales: some saturate.
    for (const float scale : {kInt8Scale, 0x1p-9f, 0x1.fffep-8f}) {
      const Array x = Elements(n, offset, &random);
      const Array before = carry;
      ByteArray y(n, offset / 2), expected(n, 0);
      kernels.to_int8_carry(n, x.data(), scale, 1 / scale, carry.data(), y.data());
      scalar.to_int8_carry(n, x.data(), scale, 1 / scale, expected_carry.data(), expected.data());
      REQUIRE(SameBits(y, expected));
      for (size_t i = 0; i < n; ++i) {
        REQUIRE(std::memcmp(&carry.data()[i], &expected_carry.data()[i], sizeof(float)) == 0);
        if (x[i] == 0) {
          REQUIRE((y[i] == 0 && carry[i] == before[i]));
          continue;
        }
        const double wanted = double{x[i]} + double{before[i]};
        REQUIRE(Near(double{carry[i]} + y[i] * double{scale}, wanted, 1e-6));
        const bool saturated = std::abs(int{y[i]}) == 127;
        if (!saturated) REQUIRE(std::abs(carry[i]) <= 0.5001f * scale);
      }
      CHECK((y.GuardsIntact() && carry.GuardsIntact()));
    }
  });
}

TEST_CASE("from_int8 gives back every byte") {
  Random random(4);
  const Kernels& scalar = *KernelsByName("scalar");
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    ByteArray x(n, offset);
    for (size_t i = 0; i < n; ++i) x.data()[i] = static_cast<int8_t>(random.Below(256));
    const auto scale = static_cast<float>(random.Uniform());
    Array y(n, offset / 2), expected(n, 0);
    kernels.from_int8(n, x.data(), scale, y.data());
    scalar.from_int8(n, x.data(), scale, expected.data());
    REQUIRE(SameBits(y, expected));
    for (size_t i = 0; i < n; ++i) REQUIRE(y[i] == static_cast<float>(x[i]) * scale);
    CHECK(y.GuardsIntact());
  });
}

}  // namespace
}  // namespace dslide::kernels_int8_test
