#include "common/model/cells.h"

#include <doctest/doctest.h>

#include <set>

#include "common/base/random.h"

namespace dslide {
namespace {

TEST_CASE("cells: neurons of well separated groups come into cells of their own") {
  constexpr uint32_t kGroups = 7, kPerGroup = 60, kDim = 12, kNeurons = kGroups * kPerGroup;
  Random random(1);
  std::vector<float> centres(kGroups * kDim), rows, bias;
  for (float& c : centres) c = static_cast<float>(random.Normal());
  for (uint32_t i = 0; i < kNeurons; ++i) {
    for (uint32_t d = 0; d < kDim; ++d) {
      rows.push_back(centres[i % kGroups * kDim + d] + 0.01f * static_cast<float>(random.Normal()));
    }
    bias.push_back(static_cast<float>(i % kGroups));
  }
  const ReadRows read = [&](uint32_t begin, uint32_t, std::vector<float>*) {
    return rows.data() + size_t{begin} * kDim;
  };
  const Cells cells = MakeCells(kNeurons, kDim, read, bias, 40, 1, BestKernels());
  REQUIRE(cells.cell_of.size() == kNeurons);
  const size_t count = cells.biases.size();
  CHECK(count <= 40);
  CHECK(cells.means.size() == count * kDim);
  // No cell has neurons of two groups, none is empty, and means are means.
  std::vector<std::set<uint32_t>> groups(count);
  std::vector<double> sum(count * kDim), sizes(count);
  for (uint32_t i = 0; i < kNeurons; ++i) {
    const uint32_t cell = cells.cell_of[i];
    REQUIRE(cell < count);
    groups[cell].insert(i % kGroups);
    sizes[cell] += 1;
    for (uint32_t d = 0; d < kDim; ++d) sum[cell * kDim + d] += double{rows[i * kDim + d]};
  }
  for (size_t cell = 0; cell < count; ++cell) {
    REQUIRE(groups[cell].size() == 1);
    CHECK(cells.biases[cell] == doctest::Approx(*groups[cell].begin()));
    for (uint32_t d = 0; d < kDim; ++d) {
      CHECK(cells.means[cell * kDim + d] ==
            doctest::Approx(sum[cell * kDim + d] / sizes[cell]).epsilon(1e-4));
    }
  }
  const Cells again = MakeCells(kNeurons, kDim, read, bias, 40, 3, BestKernels());
  CHECK(again.cell_of == cells.cell_of);
  CHECK(again.means == cells.means);
}

TEST_CASE("cells: one neuron, equal neurons, more cells than neurons") {
  const std::vector<float> rows(5 * 4, 1.0f), bias(5, 0.5f);
  const ReadRows read = [&](uint32_t begin, uint32_t, std::vector<float>*) {
    return rows.data() + size_t{begin} * 4;
  };
  CHECK(MakeCells(1, 4, read, bias, 100, 2, BestKernels()).biases.size() == 1);
  const Cells equal = MakeCells(5, 4, read, bias, 3, 2, BestKernels());
  CHECK(equal.biases.size() == 1);
  CHECK(equal.cell_of == std::vector<uint32_t>(5, 0));
}

}  // namespace
}  // namespace dslide
