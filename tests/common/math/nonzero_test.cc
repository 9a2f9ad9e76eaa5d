// The packing of matrices that are full of zeros, against loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <vector>

#include "common/base/random.h"
#include "common/math/kernels.h"
#include "tests/common/math/kernel_arrays.h"

namespace dslide::nonzero_test {
namespace {

std::vector<float> WithZeros(size_t n, Random* random) {
  std::vector<float> x(n);
  for (float& value : x) {
    value = static_cast<float>(random->Uniform() - 0.5);
    if (random->Uniform() < 0.5) value = std::copysign(0.0f, value);
  }
  return x;
}

TEST_CASE("pack_nonzero leaves zeros out, unpack_nonzero puts them back") {
  Random random(21);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    const std::vector<float> x = WithZeros(n, &random);
    std::vector<uint8_t> wanted_bits((n + 7) / 8);
    std::vector<float> wanted;
    for (size_t i = 0; i < n; ++i) {
      if (x[i] == 0.0f) continue;
      wanted_bits[i / 8] = static_cast<uint8_t>(wanted_bits[i / 8] + (1 << i % 8));
      wanted.push_back(x[i]);
    }
    std::vector<uint16_t> wanted_bf16(wanted.size());
    KernelsByName("scalar")->to_bf16(wanted.size(), wanted.data(), wanted_bf16.data());

    ArrayOf<uint8_t> bits((n + 7) / 8, offset);
    Array floats(n, offset);
    REQUIRE(kernels.pack_nonzero(n, x.data(), bits.data(), floats.data()) == wanted.size());
    CHECK(std::equal(wanted.begin(), wanted.end(), floats.data()));
    CHECK(std::equal(wanted_bits.begin(), wanted_bits.end(), bits.data()));
    ArrayOf<uint16_t> halves(n, offset);
    REQUIRE(kernels.pack_nonzero_bf16(n, x.data(), bits.data(), halves.data()) == wanted.size());
    CHECK(std::equal(wanted_bf16.begin(), wanted_bf16.end(), halves.data()));
    CHECK(std::equal(wanted_bits.begin(), wanted_bits.end(), bits.data()));
    CHECK(bits.GuardsIntact());
    CHECK(floats.GuardsIntact());
    CHECK(halves.GuardsIntact());

    // Parts of the vector that begin anywhere; the last element may be the last byte of its memory.
    for (const size_t first : {size_t{0}, size_t{1}, n / 3, n / 2}) {
      if (first > n) continue;
      const auto before =
          static_cast<size_t>(std::count_if(x.begin(), x.begin() + static_cast<ptrdiff_t>(first),
                                            [](float value) { return value != 0.0f; }));
      const std::vector<float> tail(wanted.begin() + static_cast<ptrdiff_t>(before), wanted.end());
      const std::vector<uint16_t> tail_bf16(wanted_bf16.begin() + static_cast<ptrdiff_t>(before),
                                            wanted_bf16.end());
      Array out(n - first, offset);
      CHECK(kernels.unpack_nonzero(n - first, wanted_bits.data(), first, tail.data(), tail.size(),
                                   out.data()) == tail.size());
      for (size_t i = first; i < n; ++i) REQUIRE(out[i - first] == x[i]);
      CHECK(kernels.unpack_nonzero_bf16(n - first, wanted_bits.data(), first, tail_bf16.data(),
                                        tail.size(), out.data()) == tail.size());
      size_t next = 0;
      for (size_t i = first; i < n; ++i) {
        const uint32_t half = x[i] == 0.0f ? 0 : tail_bf16[next++];
        REQUIRE(out[i - first] == std::bit_cast<float>(half << 16));
      }
      CHECK(out.GuardsIntact());
    }
  });
}

TEST_CASE("pack_nonzero_bytes and unpack_nonzero_int8 are inverse") {
  Random random(22);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    std::vector<uint8_t> x(n);
    for (uint8_t& byte : x) byte = static_cast<uint8_t>(random.Below(2) * random.Below(256));
    std::vector<uint8_t> wanted;
    std::copy_if(x.begin(), x.end(), std::back_inserter(wanted),
                 [](uint8_t byte) { return byte != 0; });
    ArrayOf<uint8_t> bits((n + 7) / 8, offset);
    ArrayOf<uint8_t> packed(n, offset);
    REQUIRE(kernels.pack_nonzero_bytes(n, x.data(), bits.data(), packed.data()) == wanted.size());
    CHECK(std::equal(wanted.begin(), wanted.end(), packed.data()));
    CHECK(bits.GuardsIntact());
    CHECK(packed.GuardsIntact());
    Array out(n, offset);
    const auto* bytes = reinterpret_cast<const int8_t*>(wanted.data());
    CHECK(kernels.unpack_nonzero_int8(n, bits.data(), 0, bytes, wanted.size(), 0.25f, out.data()) ==
          wanted.size());
    for (size_t i = 0; i < n; ++i) {
      REQUIRE(out[i] == 0.25f * static_cast<float>(static_cast<int8_t>(x[i])));
    }
    CHECK(out.GuardsIntact());
  });
}

}  // namespace
}  // namespace dslide::nonzero_test
