#include "common/math/bf16_gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/math/bf16_gemm_amx_inl.h"
#include "common/math/bf16_gemm_internal.h"
#include "tests/support/floats.h"

namespace dslide::bf16_gemm_test {
namespace {

constexpr float kGuard = 12345.0f;     // around c: nothing may be written there
constexpr uint16_t kBf16Nan = 0x7fff;  // around a and b: nothing may be read there

float ToFloat(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }

// AMX in plain C++, so that the packing and blocking around it is tested on every machine.
struct EmulatedTile {
  static constexpr size_t kRows = 16;
  static constexpr size_t kRowFloats = 16;

  static inline bool configured = false;
  static inline float tiles[8][kRows][kRowFloats];

  static void Configure() {
    DSLIDE_CHECK(!configured);
    configured = true;
  }

  static void Release() {
    DSLIDE_CHECK(configured);
    configured = false;
  }

  template <int kTile>
  static void Load(const float* from, size_t stride) {
    DSLIDE_CHECK(configured);
    for (size_t i = 0; i < kRows; ++i) {
      __builtin_memcpy(tiles[kTile][i], from + i * stride / sizeof(float), sizeof(tiles[kTile][i]));
    }
  }

  template <int kTile>
  static void Store(float* to, size_t stride) {
    for (size_t i = 0; i < kRows; ++i) {
      __builtin_memcpy(to + i * stride / sizeof(float), tiles[kTile][i], sizeof(tiles[kTile][i]));
    }
  }

  template <int kTile>
  static void Zero() {
    for (auto& row : tiles[kTile]) std::fill(std::begin(row), std::end(row), 0.0f);
  }

  template <int kC, int kA, int kB>
  static void MultiplyAdd() {
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t p = 0; p < kRowFloats; ++p) {
        const auto a = std::bit_cast<uint32_t>(tiles[kA][i][p]);
        for (size_t j = 0; j < kRowFloats; ++j) {
          const auto b = std::bit_cast<uint32_t>(tiles[kB][p][j]);
          tiles[kC][i][j] += Low(a) * Low(b);
          tiles[kC][i][j] += High(a) * High(b);
        }
      }
    }
  }

 private:
  static float Low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
  static float High(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }
};

constexpr Bf16Gemm kEmulatedAmx = MakeBf16Gemm<AmxKernel<EmulatedTile>>("emulated amx");

std::vector<const Bf16Gemm*> Variants() {
  std::vector<const Bf16Gemm*> variants = {&kEmulatedAmx};
  for (const char* name : {"scalar", "amx"}) {
    if (const Bf16Gemm* gemm = Bf16GemmByName(name)) variants.push_back(gemm);
  }
  return variants;
}

enum class Op { kNt, kNn, kTn };

constexpr Op kOps[] = {Op::kNt, Op::kNn, Op::kTn};

auto Function(const Bf16Gemm& gemm, Op op) {
  return op == Op::kNt ? gemm.nt : op == Op::kNn ? gemm.nn : gemm.tn;
}

// A rows x cols operand between -1 and 1, with `padding` NaNs behind each row and one in front.
struct Matrix {
  Matrix(size_t rows, size_t cols, size_t padding, Random* random)
      : stride(cols + padding), values(1 + rows * stride, kBf16Nan) {
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < cols; ++j) {
        const auto value = static_cast<float>(2 * random->Uniform() - 1);
        values[1 + i * stride + j] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      }
    }
  }

  const uint16_t* data() const { return values.data() + 1; }
  float At(size_t i, size_t j) const { return ToFloat(data()[i * stride + j]); }

  size_t stride;
  std::vector<uint16_t> values;
};

// The operands of a product and what it has to be.
class Product {
 public:
  Product(Op op, size_t m, size_t n, size_t k, bool accumulate, size_t padding, Random* random)
      : op_(op),
        m_(m),
        n_(n),
        k_(k),
        accumulate_(accumulate),
        ldc_(n + padding),
        a_(op == Op::kTn ? k : m, op == Op::kTn ? m : k, padding, random),
        b_(op == Op::kNt ? n : k, op == Op::kNt ? k : n, padding, random),
        c_(1 + (m + 1) * ldc_, kGuard),
        expected_(m * n),
        tolerance_(m * n) {
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const float before = accumulate ? static_cast<float>(random->Uniform()) : kNan;
        c_[1 + i * ldc_ + j] = before;
        Expect(i, j, accumulate ? before : 0.0);
      }
    }
  }

  std::vector<float> Run(const Bf16Gemm& gemm) const {
    std::vector<float> c = c_;
    Function(gemm, op_)(m_, n_, k_, a_.data(), a_.stride, b_.data(), b_.stride, c.data() + 1, ldc_,
                        accumulate_);
    return c;
  }

  // The product of these rows and columns alone.
  std::vector<float> RunPart(const Bf16Gemm& gemm, size_t row, size_t rows, size_t col,
                             size_t cols) const {
    std::vector<float> c = c_;
    const uint16_t* a = a_.data() + (op_ == Op::kTn ? row : row * a_.stride);
    const uint16_t* b = b_.data() + (op_ == Op::kNt ? col * b_.stride : col);
    Function(gemm, op_)(rows, cols, k_, a, a_.stride, b, b_.stride, &c[At(row, col)], ldc_,
                        accumulate_);
    return c;
  }

  bool IsRight(const std::vector<float>& c) const {
    for (size_t at = 0; at < c.size(); ++at) {
      const size_t i = at == 0 ? m_ : (at - 1) / ldc_;
      const size_t j = at == 0 ? n_ : (at - 1) % ldc_;
      const bool inside = i < m_ && j < n_;
      if (!inside && c[at] != kGuard) return false;
      // Written so that a NaN is wrong.
      if (inside && !(std::abs(c[at] - expected_[i * n_ + j]) <= tolerance_[i * n_ + j])) {
        return false;
      }
    }
    return true;
  }

  size_t At(size_t i, size_t j) const { return 1 + i * ldc_ + j; }

 private:
  // Each of at most k+1 roundings is off by half a unit in the last place of a partial sum; the
  // CPU's instructions may round the products, too.
  void Expect(size_t i, size_t j, double before) {
    double sum = before;
    double magnitude = std::abs(before);
    for (size_t p = 0; p < k_; ++p) {
      const double a = op_ == Op::kTn ? a_.At(p, i) : a_.At(i, p);
      const double b = op_ == Op::kNt ? b_.At(j, p) : b_.At(p, j);
      sum += a * b;
      magnitude += std::abs(a * b);
    }
    constexpr double kUnit = std::numeric_limits<float>::epsilon() / 2;
    expected_[i * n_ + j] = sum;
    tolerance_[i * n_ + j] = static_cast<double>(k_ + 2) * kUnit * magnitude;
  }

  Op op_;
  size_t m_, n_, k_;
  bool accumulate_;
  size_t ldc_;
  Matrix a_;
  Matrix b_;
  std::vector<float> c_;
  std::vector<double> expected_;
  std::vector<double> tolerance_;
};

// Checks every variant, product and way of accumulating on one shape.
void CheckShape(size_t m, size_t n, size_t k, size_t padding, Random* random) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  for (Op op : kOps) {
    CAPTURE(static_cast<int>(op));
    for (bool accumulate : {false, true}) {
      CAPTURE(accumulate);
      const Product product(op, m, n, k, accumulate, padding, random);
      for (const Bf16Gemm* gemm : Variants()) {
        CAPTURE(gemm->name);
        REQUIRE(product.IsRight(product.Run(*gemm)));
      }
    }
  }
}

TEST_CASE("bf16 products of small shapes") {
  Random random(1);
  const size_t sizes[] = {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 129};
  for (size_t m : sizes) {
    for (size_t n : sizes) {
      for (size_t k : sizes) CheckShape(m, n, k, (m + n + k) % 4, &random);
    }
  }
}

TEST_CASE("bf16 products across cache blocks") {
  Random random(2);
  CheckShape(kBlockRows + 1, kBlockCols + 1, 7, 1, &random);
  CheckShape(kBlockRows, kBlockCols, kDepth + 1, 0, &random);
  CheckShape(5, kBlockCols + 47, 2 * kDepth + 31, 5, &random);
  CheckShape(2 * kBlockRows + 13, 40, kDepth, 3, &random);
}

TEST_CASE("an element of a bf16 product does not depend on the other rows and columns") {
  Random random(3);
  constexpr size_t kM = 77, kN = 70;
  for (Op op : kOps) {
    for (bool accumulate : {false, true}) {
      const Product product(op, kM, kN, kDepth + 99, accumulate, 3, &random);
      for (const Bf16Gemm* gemm : Variants()) {
        CAPTURE(gemm->name);
        const std::vector<float> whole = product.Run(*gemm);
        for (size_t i = 0; i < kM; i += 5) {
          const size_t rows = std::min<size_t>(kM - i, 1 + i % 3);
          const std::vector<float> part = product.RunPart(*gemm, i, rows, 3, kN - 3);
          for (size_t j = 3; j < kN; ++j) {
            REQUIRE(part[product.At(i, j)] == whole[product.At(i, j)]);
          }
        }
      }
    }
  }
}

TEST_CASE("the self-check passes right products and no wrong ones") {
  for (const Bf16Gemm* gemm : Variants()) {
    CAPTURE(gemm->name);
    CHECK(PassesSelfCheck(*gemm));
  }
  Bf16Gemm wrong = kScalarBf16Gemm;
  wrong.tn = wrong.nn;
  CHECK(!PassesSelfCheck(wrong));
  wrong = kScalarBf16Gemm;
  wrong.nt = [](size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b,
                size_t ldb, float* c, size_t ldc, bool accumulate) {
    kScalarBf16Gemm.nt(m, n, k, a, lda, b, ldb, c, ldc, accumulate);
    c[(m - 1) * ldc + n - 1] += 1.0f;
  };
  CHECK(!PassesSelfCheck(wrong));
}

TEST_CASE("bf16 products by name") {
  CHECK(Bf16GemmByName("scalar") == &kScalarBf16Gemm);
  CHECK(Bf16GemmByName("sse9") == nullptr);
  const Bf16Gemm* best = BestBf16Gemm();
  if (best == nullptr) return;
  CHECK(best->name != "scalar");
  CHECK(best == Bf16GemmByName(best->name));
}

}  // namespace
}  // namespace dslide::bf16_gemm_test
