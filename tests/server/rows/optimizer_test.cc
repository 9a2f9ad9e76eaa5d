#include "server/rows/optimizer.h"

#include <doctest/doctest.h>

#include <vector>

#include "common/base/random.h"
#include "tests/server/support/dense_network.h"

namespace dslide::optimizer_test {
namespace {

constexpr size_t kRowLength = 19;

// A row of each optimiser beside the reference, through `steps` random gradients.
void CheckAgainstFormulas(const TrainConfig& train, bool decay, int steps) {
  Random random(2);
  std::vector<float> w(kRowLength), m(kRowLength), v(kRowLength);
  RowScalars scalars;
  scalars.bias = 0.25f;
  DenseRow reference;
  for (float& x : w) {
    x = static_cast<float>(random.Normal());
    reference.w.push_back(x);
  }
  reference.w.push_back(scalars.bias);
  const Optimizer optimizer(train, BestKernels());
  for (int step = 0; step < steps; ++step) {
    const auto rate = static_cast<float>(0.1 * random.Uniform());
    std::vector<float> g;
    std::vector<double> exact;
    for (size_t j = 0; j <= kRowLength; ++j) {
      g.push_back(static_cast<float>(random.Normal()));
      exact.push_back(g.back());
    }
    optimizer.Apply({rate, g.data(), g[kRowLength], decay}, kRowLength,
                    RowView{w.data(), m.data(), v.data(), &scalars}, 0);
    reference.Update(train, rate, exact, decay);
  }
  for (size_t j = 0; j < kRowLength; ++j)
    CHECK(w[j] == doctest::Approx(reference.w[j]).epsilon(1e-4));
  CHECK(scalars.bias == doctest::Approx(reference.w[kRowLength]).epsilon(1e-4));
  CHECK(scalars.steps == static_cast<uint32_t>(steps));
}

TEST_CASE("every optimiser follows its formula, with and without weight decay") {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdam, OptimizerKind::kAdaGrad, OptimizerKind::kSgd}) {
    CAPTURE(static_cast<int>(kind));
    TrainConfig train;
    train.optimizer = kind;
    CheckAgainstFormulas(train, true, 1);
    CheckAgainstFormulas(train, true, 40);
    train.weight_decay = 0.5f;
    CheckAgainstFormulas(train, true, 40);
    CheckAgainstFormulas(train, false, 40);
  }
}

}  // namespace
}  // namespace dslide::optimizer_test
