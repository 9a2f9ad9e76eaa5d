// The products of all instruction sets, bit for bit against one loop in the order that the header
// says.
#include "common/math/reproducible/gemm.h"

#include <doctest/doctest.h>

#include <bit>
#include <vector>

#include "common/base/random.h"
#include "tests/common/math/kernel_arrays.h"

namespace dslide::reproducible_gemm_test {
namespace {

enum class Layout { kNt, kNn, kTn };

ReproducibleGemm::Product ProductOf(const ReproducibleGemm& gemm, Layout layout) {
  if (layout == Layout::kNt) return gemm.nt;
  return layout == Layout::kNn ? gemm.nn : gemm.tn;
}

// Through memory, so that no compiler makes one operation of two.
float PlusProduct(float sum, float x, float y) {
  volatile float product = x * y;
  volatile float result = sum + product;
  return result;
}

// Numbers of very different sizes, and zeros as relu leaves them: another order gives other bits.
Array Mixed(size_t size, size_t offset, Random* random) {
  Array array(size, offset, random, -1, 1);
  for (size_t i = 0; i < size; ++i) {
    if (i % 3 == 0) array.data()[i] *= 1000;
    if (i % 5 == 0) array.data()[i] = i % 2 == 0 ? 0.0f : -0.0f;
  }
  return array;
}

struct Case {
  size_t m, n, k, padding;
  Layout layout;
  bool accumulate;
};

void CheckCase(const Case& c, Random* random) {
  const bool a_across = c.layout == Layout::kTn, b_along = c.layout == Layout::kNt;
  const size_t lda = (a_across ? c.m : c.k) + c.padding;
  const size_t ldb = (b_along ? c.k : c.n) + 2 * c.padding, ldc = c.n + 3 * c.padding;
  const Array a = Mixed((a_across ? c.k : c.m) * lda, c.padding % 4, random);
  const Array b = Mixed((b_along ? c.n : c.k) * ldb, c.padding % 3, random);
  Array before = Mixed(c.m * ldc, c.padding % 5, random);
  if (!c.accumulate && c.m * c.n > 0) before.data()[0] = kNan;  // is of no matter
  std::vector<float> expected(before.data(), before.data() + before.size());
  for (size_t i = 0; i < c.m; ++i) {
    for (size_t j = 0; j < c.n; ++j) {
      float sum = c.accumulate ? before[i * ldc + j] : 0.0f;
      for (size_t p = 0; p < c.k; ++p) {
        sum = PlusProduct(sum, a[a_across ? p * lda + i : i * lda + p],
                          b[b_along ? j * ldb + p : p * ldb + j]);
      }
      expected[i * ldc + j] = sum;
    }
  }
  for (const char* name : {"scalar", "avx2", "avx512"}) {
    const ReproducibleGemm* gemm = ReproducibleGemmByName(name);
    if (gemm == nullptr) continue;
    CAPTURE(name);
    CAPTURE(c.m);
    CAPTURE(c.n);
    CAPTURE(c.k);
    CAPTURE(static_cast<int>(c.layout));
    CAPTURE(c.accumulate);
    CHECK(gemm->name == name);
    Array out = before;
    ProductOf(*gemm, c.layout)(c.m, c.n, c.k, a.data(), lda, b.data(), ldb, out.data(), ldc,
                               c.accumulate);
    CHECK(out.GuardsIntact());
    size_t different = 0;
    for (size_t e = 0; e < expected.size(); ++e) {
      different += std::bit_cast<uint32_t>(out[e]) != std::bit_cast<uint32_t>(expected[e]);
    }
    CHECK(different == 0);
  }
}

TEST_CASE("reproducible products: the same bits from every instruction set") {
  Random random(11);
  const auto check = [&](size_t m, size_t n, size_t k) {
    for (const Layout layout : {Layout::kNt, Layout::kNn, Layout::kTn}) {
      for (const bool accumulate : {false, true}) {
        CheckCase({m, n, k, (m + n + k) % 4, layout, accumulate}, &random);
      }
    }
  };
  const std::vector<size_t> small = {0, 1, 2, 3, 5, 7, 8, 9, 12, 13, 16, 17, 31, 33};
  for (const size_t m : small) {
    for (const size_t n : small) check(m, n, 1 + (7 * m + n) % 19);
  }
  // Across the blocks along each side.
  check(5, 9, 0);
  check(7, 19, 255);
  check(7, 19, 256);
  check(13, 35, 257);
  check(11, 33, 777);
  check(11, 259, 300);
  check(269, 21, 300);
}

TEST_CASE("reproducible products: the best are those of the best kernels") {
  CHECK(BestReproducibleGemm().name == BestKernels().name);
  CHECK(ReproducibleGemmByName("scalar") != nullptr);
  CHECK(ReproducibleGemmByName("sse9") == nullptr);
}

}  // namespace
}  // namespace dslide::reproducible_gemm_test
