// The kernels on bfloat16 rows (kernels.h): arithmetic in float, results rounded stochastically.
#include <functional>

#include "tests/common/math/kernel_arrays.h"

namespace dslide::kernels_bf16_test {
namespace {

constexpr double kUlp = 0x1p-7;  // the spacing of bfloat16 between 1 and 2

double Floor(double x) {
  const uint16_t near = Truncated(x);
  if (double{ToFloat(near)} <= x) return ToFloat(near);
  return ToFloat(static_cast<uint16_t>(x < 0 ? near + 1 : near - 1));
}

double Ceiling(double x) { return -Floor(-x); }

// Whether `rounded` is a neighbour of a value within `tolerance` of `exact`: within one ulp of it.
bool IsNeighbour(uint16_t rounded, double exact, double tolerance) {
  const double value = ToFloat(rounded);
  return value >= Floor(exact - tolerance) && value <= Ceiling(exact + tolerance);
}

uint32_t Noise(Random* random) { return static_cast<uint32_t>(random->Next()); }

constexpr AdamStep kStep = {.step_size = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};

TEST_CASE("adam_bf16 is the formula, the weights within one ulp") {
  Random random(1);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array g(n, offset, &random, -1, 1);
    HalfArray w(n, offset / 2, &random, -1, 1);
    Array m(n, offset, &random, -0.1, 0.1);
    Array v(n, offset / 3, &random, 0, 0.1);
    if (n > 0) g.data()[0] = m.data()[0] = v.data()[0] = 0;  // 0 / epsilon moves nothing
    const HalfArray w0 = w;
    const Array m0 = m, v0 = v;
    kernels.adam_bf16(n, kStep, g.data(), w.data(), m.data(), v.data(), Noise(&random));
    if (n > 0) CHECK(w[0] == w0[0]);
    for (size_t i = 0; i < n; ++i) {
      const AdamReference exact = ExactAdam(kStep, g[i], ToFloat(w0[i]), m0[i], v0[i]);
      REQUIRE(IsNeighbour(w[i], exact.w, 2e-7));
      REQUIRE(Near(m[i], exact.m, 1e-7));
      REQUIRE(Near(v[i], exact.v, 3e-7 * exact.v));
    }
    CHECK((w.GuardsIntact() && m.GuardsIntact() && v.GuardsIntact()));
  });
}

TEST_CASE("adam_all_bf16 is the formula, weights and moments within one ulp") {
  Random random(2);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array g(n, offset, &random, -1, 1);
    HalfArray w(n, offset / 2, &random, -1, 1);
    HalfArray m(n, offset, &random, -0.1, 0.1);
    HalfArray v(n, offset / 3, &random, 0, 0.1);
    if (n > 0) g.data()[0] = 0, m.data()[0] = v.data()[0] = 0;
    const HalfArray w0 = w, m0 = m, v0 = v;
    kernels.adam_all_bf16(n, kStep, g.data(), w.data(), m.data(), v.data(), Noise(&random));
    if (n > 0) CHECK((w[0] == w0[0] && m[0] == 0 && v[0] == 0));
    for (size_t i = 0; i < n; ++i) {
      const AdamReference exact =
          ExactAdam(kStep, g[i], ToFloat(w0[i]), ToFloat(m0[i]), ToFloat(v0[i]));
      REQUIRE(IsNeighbour(w[i], exact.w, 2e-7));
      REQUIRE(IsNeighbour(m[i], exact.m, 1e-7));
      REQUIRE(IsNeighbour(v[i], exact.v, 3e-7 * exact.v));
    }
    CHECK((w.GuardsIntact() && m.GuardsIntact() && v.GuardsIntact()));
  });
}

TEST_CASE("axpy_bf16 is within one ulp") {
  Random random(3);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    Array x(n, offset, &random, -1, 1);
    HalfArray y(n, offset / 2, &random, -1, 1);
    const HalfArray before = y;
    kernels.axpy_bf16(n, 0.3f, x.data(), y.data(), Noise(&random));
    for (size_t i = 0; i < n; ++i) {
      const double exact = double{ToFloat(before[i])} + double{0.3f} * double{x[i]};
      REQUIRE(IsNeighbour(y[i], exact, 2e-7));
    }
    CHECK(y.GuardsIntact());
  });
}

// Operands of few bits, so that no variant rounds before the end, whatever its order of operations:
// every value is a multiple of 1/64 below 4, gradients are powers of two, and v = g * g stays so.
struct ExactOperands {
  ExactOperands(size_t n, size_t offset, Random* random)
      : g(n, offset), w(n, offset / 2), m(n, offset), v(n, offset / 3) {
    for (size_t i = 0; i < n; ++i) {
      const float sign = random->Below(2) == 0 ? 1.0f : -1.0f;
      g.data()[i] = sign * static_cast<float>(1u << random->Below(4)) / 4;
      w.data()[i] = Truncated(static_cast<double>(random->Below(256)) / 64 - 2);
      m.data()[i] = Truncated(static_cast<double>(random->Below(256)) / 64 - 2);
      v.data()[i] = Truncated(double{g[i]} * double{g[i]});
    }
  }

  Array g;
  HalfArray w, m, v;
};

constexpr AdamStep kExactStep = {
    .step_size = 0x1p-9f, .beta1 = 0.5f, .beta2 = 0.5f, .epsilon = 0.0f};

TEST_CASE("kernels on bf16 give the same bits in every variant where the arithmetic is exact") {
  const Kernels& scalar = *KernelsByName("scalar");
  Random random(6);
  ForAllLengths([&](const Kernels& kernels, size_t n, size_t offset) {
    const ExactOperands start(n, offset, &random);
    const uint32_t noise = Noise(&random);
    ExactOperands a = start, b = start;
    scalar.adam_all_bf16(n, kExactStep, a.g.data(), a.w.data(), a.m.data(), a.v.data(), noise);
    kernels.adam_all_bf16(n, kExactStep, b.g.data(), b.w.data(), b.m.data(), b.v.data(), noise);
    bool same = true, neighbours = true;
    size_t moved = 0;
    for (size_t i = 0; i < n; ++i) {
      const AdamReference exact = ExactAdam(kExactStep, start.g[i], ToFloat(start.w[i]),
                                            ToFloat(start.m[i]), ToFloat(start.v[i]));
      same = same && a.w[i] == b.w[i] && a.m[i] == b.m[i] && a.v[i] == b.v[i];
      neighbours = neighbours && IsNeighbour(b.w[i], exact.w, 0) && b.v[i] == start.v[i] &&
                   IsNeighbour(b.m[i], exact.m, 0);
      moved += b.w[i] != start.w[i];
    }
    REQUIRE(same);
    REQUIRE(neighbours);
    if (n > 100) CHECK(moved > 0);

    ExactOperands c = start, d = start;
    scalar.axpy_bf16(n, 0x1p-8f, c.g.data(), c.w.data(), noise);
    kernels.axpy_bf16(n, 0x1p-8f, d.g.data(), d.w.data(), noise);
    Array moment1(n, offset), moment2(n, offset);
    for (size_t i = 0; i < n; ++i) {
      const double exact = double{ToFloat(start.w[i])} + 0x1p-8 * double{start.g[i]};
      same = same && c.w[i] == d.w[i];
      neighbours = neighbours && IsNeighbour(d.w[i], exact, 0);
      moment1.data()[i] = ToFloat(start.m[i]);
      moment2.data()[i] = ToFloat(start.v[i]);
    }
    REQUIRE(same);
    REQUIRE(neighbours);

    // Weights are rounded alike whatever the moments' type is.
    ExactOperands e = start;
    kernels.adam_bf16(n, kExactStep, e.g.data(), e.w.data(), moment1.data(), moment2.data(), noise);
    for (size_t i = 0; i < n; ++i) same = same && e.w[i] == a.w[i];
    REQUIRE(same);
    CHECK(kernels.dot_bf16(n, start.g.data(), start.w.data()) ==
          scalar.dot_bf16(n, start.g.data(), start.w.data()));
  });
}

TEST_CASE("a result that bf16 can hold is not moved by the rounding") {
  Random random(7);
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    for (int repeat = 0; repeat < 200; ++repeat) {
      const ExactOperands start(37, 1, &random);
      ExactOperands x = start;
      kernels->axpy_bf16(37, 0.0f, x.g.data(), x.w.data(), Noise(&random));
      for (size_t i = 0; i < 37; ++i) REQUIRE(ToFloat(x.w[i]) == ToFloat(start.w[i]));
    }
  }
}

constexpr size_t kLanes = 37;  // whole vectors and a rest in every variant
constexpr int kRounds = 4000;

// The mean of every element of update(noise) over many `noise` values is `exact`, and its elements
// are rounded independently of each other. update() returns values around `exact`, between `low`
// and low + ulp.
void CheckUnbiased(const std::function<std::vector<double>(uint32_t)>& update, double exact,
                   double low, double ulp, Random* random) {
  std::vector<double> up(kLanes);
  double sum = 0, squares = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> values = update(Noise(random));
    double in_round = 0;
    for (size_t i = 0; i < kLanes; ++i) {
      REQUIRE((values[i] == low || values[i] == low + ulp));
      up[i] += values[i] > low;
      in_round += values[i] > low;
    }
    sum += in_round;
    squares += in_round * in_round;
  }
  const double chance = (exact - low) / ulp;
  const double variance = chance * (1 - chance);
  const double bound = 4 * std::sqrt(variance * kRounds);
  for (size_t i = 0; i < kLanes; ++i) CHECK(std::abs(up[i] - kRounds * chance) < bound);
  CHECK(std::abs(sum - kRounds * chance * kLanes) < bound * std::sqrt(double{kLanes}));
  // A variance that is estimated from n draws has a relative deviation of sqrt((2 + excess) / n),
  // with the binomial distribution's excess kurtosis.
  const double spread = squares / kRounds - sum / kRounds * sum / kRounds;
  const double excess = (1 - 6 * variance) / (kLanes * variance);
  CHECK(std::abs(spread / (variance * kLanes) - 1) < 4 * std::sqrt((2 + excess) / kRounds));
}

std::vector<double> Values(const std::vector<uint16_t>& x) {
  std::vector<double> values;
  for (const uint16_t half : x) values.push_back(ToFloat(half));
  return values;
}

// Shares of an ulp by which an element is to move.
constexpr double kShares[] = {0x1p-6, 0.125, 0.5, 0.8125};

TEST_CASE("axpy_bf16 is unbiased: updates far below one ulp add up") {
  Random random(8);
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    for (const double share : kShares) {
      CAPTURE(share);
      for (const double start : {1.25, -1.25}) {
        const std::vector<float> x(kLanes, 2.0f);
        const auto update = [&](uint32_t noise) {
          std::vector<uint16_t> y(kLanes, Truncated(start));
          kernels->axpy_bf16(kLanes, static_cast<float>(share * kUlp / 2), x.data(), y.data(),
                             noise);
          return Values(y);
        };
        CheckUnbiased(update, start + share * kUlp, start, kUlp, &random);
      }
    }
  }
}

TEST_CASE("adam on bf16 is unbiased in weights and moments") {
  Random random(9);
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    for (const double share : kShares) {
      CAPTURE(share);
      // m moves from 1.25 towards g, v from 1.25 towards g * g, both by `share` of an ulp.
      const auto g = static_cast<float>(std::sqrt(1.25 + 8 * share * kUlp));
      const AdamStep step = {.step_size = static_cast<float>(share * kUlp),
                             .beta1 = 0.5f,
                             .beta2 = 0.875f,
                             .epsilon = 0.0f};
      const AdamReference exact = ExactAdam(step, g, 1.25, 1.25, 1.25);
      const std::vector<float> gradients(kLanes, g);
      std::vector<uint16_t> w, m, v;
      const auto all = [&](std::vector<uint16_t>* part) {
        return [&, part](uint32_t noise) {
          w.assign(kLanes, Truncated(1.25));
          m = v = w;
          kernels->adam_all_bf16(kLanes, step, gradients.data(), w.data(), m.data(), v.data(),
                                 noise);
          return Values(*part);
        };
      };
      CheckUnbiased(all(&w), exact.w, Floor(exact.w), kUlp, &random);
      CheckUnbiased(all(&m), exact.m, Floor(exact.m), kUlp, &random);
      CheckUnbiased(all(&v), exact.v, Floor(exact.v), kUlp, &random);
      const auto weights_only = [&](uint32_t noise) {
        w.assign(kLanes, Truncated(1.25));
        std::vector<float> m32(kLanes, 1.25f), v32(kLanes, 1.25f);
        kernels->adam_bf16(kLanes, step, gradients.data(), w.data(), m32.data(), v32.data(), noise);
        return Values(w);
      };
      CheckUnbiased(weights_only, exact.w, Floor(exact.w), kUlp, &random);
    }
  }
}

TEST_CASE("an element's weight and moments are rounded independently of each other") {
  // m and v move from 1 + ulp half way to g = 1, and w up by as much: three fair coins.
  const auto step_size = static_cast<float>(-kUlp / 2 / std::sqrt(1 + kUlp / 2));
  const AdamStep step = {.step_size = step_size, .beta1 = 0.5f, .beta2 = 0.5f, .epsilon = 0.0f};
  const std::vector<float> g(kLanes, 1.0f);
  Random random(10);
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    double agree[3] = {};
    for (int round = 0; round < kRounds; ++round) {
      std::vector<uint16_t> w(kLanes, Truncated(1.25)), m(kLanes, Truncated(1 + kUlp)), v = m;
      kernels->adam_all_bf16(kLanes, step, g.data(), w.data(), m.data(), v.data(), Noise(&random));
      for (size_t i = 0; i < kLanes; ++i) {
        const bool up[] = {ToFloat(w[i]) > 1.25f, ToFloat(m[i]) > 1.0f, ToFloat(v[i]) > 1.0f};
        agree[0] += up[0] == up[1];
        agree[1] += up[0] == up[2];
        agree[2] += up[1] == up[2];
      }
    }
    const double n = double{kRounds} * kLanes;
    for (const double count : agree) CHECK(std::abs(count - n / 2) < 4 * std::sqrt(n / 4));
  }
}

}  // namespace
}  // namespace dslide::kernels_bf16_test
