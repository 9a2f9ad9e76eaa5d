// Every variant of the scan finds what the definition in int8_scan.h says, with the same bits.
#include "common/math/int8/int8_scan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <vector>

#include "common/base/random.h"
#include "tests/support/floats.h"

namespace dslide::int8_scan_test {
namespace {

// Vectors that int8 holds exactly: quanta times a scale of few bits.
struct Vectors {
  size_t count, dim;
  std::vector<int64_t> quanta;  // [count x dim]
  std::vector<float> scales;    // [count]
  std::vector<float> values;    // [count x dim]

  Vectors(size_t vectors, size_t width, int64_t lowest, Random* random)
      : count(vectors), dim(width) {
    for (size_t i = 0; i < count; ++i) {
      scales.push_back(static_cast<float>(1 + random->Below(255)) * 0x1p-12f);
      const size_t largest = random->Below(dim);
      for (size_t p = 0; p < dim; ++p) {
        const auto range = static_cast<uint64_t>(127 - lowest + 1);
        const int64_t q = p == largest ? 127 : lowest + static_cast<int64_t>(random->Below(range));
        quanta.push_back(q);
        values.push_back(static_cast<float>(q) * scales[i]);
      }
    }
  }
  Int8Panels InPanels(size_t width) const {
    Int8Panels panels(width, dim);
    panels.Resize(count);
    panels.Set(0, count, values.data(), BestKernels());
    return panels;
  }
};

struct Case {
  Vectors queries, rows;
  std::vector<float> bias, thresholds;  // filled up to whole panels

  Case(size_t query_count, size_t row_count, size_t dim, Random* random)
      : queries(query_count, dim, 0, random), rows(row_count, dim, -127, random) {
    for (size_t j = 0; j < row_count; ++j) bias.push_back(static_cast<float>(random->Normal()));
    bias.resize((row_count + 15) / 16 * 16, -kInfinity);
    for (size_t i = 0; i < query_count; ++i) {
      thresholds.push_back(static_cast<float>(random->Normal()));
    }
    thresholds.resize((query_count + 3) / 4 * 4, kInfinity);
  }

  std::vector<Int8Hit> Find(const Int8Scan& scan) const {
    const Int8Panels a = queries.InPanels(kInt8PanelQueries);
    const Int8Panels b = rows.InPanels(kInt8PanelRows);
    std::vector<Int8Hit> hits(thresholds.size() * bias.size());
    hits.resize(scan.find(a.units(), a.panels(), a.values(0), a.scales(0), thresholds.data(),
                          b.panels(), b.values(0), b.scales(0), bias.data(), hits.data()));
    std::ranges::sort(hits, {}, [](const Int8Hit& h) { return std::tuple(h.query, h.row); });
    return hits;
  }

  // From the definition; float products and sums in its order.
  std::vector<Int8Hit> Expected() const {
    std::vector<Int8Hit> hits;
    for (uint32_t i = 0; i < queries.count; ++i) {
      for (uint32_t j = 0; j < rows.count; ++j) {
        int64_t sum = 0;
        for (size_t p = 0; p < rows.dim; ++p) {
          sum += queries.quanta[i * rows.dim + p] * rows.quanta[j * rows.dim + p];
        }
        const volatile float scale = queries.scales[i] * rows.scales[j];
        const volatile float product = scale * static_cast<float>(sum);
        const float score = bias[j] + product;
        if (score >= thresholds[i]) hits.push_back({i, j, score});
      }
    }
    return hits;
  }
};

bool Equal(const std::vector<Int8Hit>& a, const std::vector<Int8Hit>& b) {
  return std::ranges::equal(a, b, [](const Int8Hit& x, const Int8Hit& y) {
    return x.query == y.query && x.row == y.row &&
           std::bit_cast<uint32_t>(x.score) == std::bit_cast<uint32_t>(y.score);
  });
}

std::vector<const Int8Scan*> Available() {
  std::vector<const Int8Scan*> available;
  for (const char* name : {"scalar", "avx2", "avx512vnni"}) {
    if (const Int8Scan* scan = Int8ScanByName(name)) available.push_back(scan);
  }
  return available;
}

TEST_CASE("int8 scan: the best variant is the widest available") {
  CHECK(BestInt8Scan().name == Available().back()->name);
  CHECK(Int8ScanByName("scalar") != nullptr);
  CHECK(Int8ScanByName("mmx") == nullptr);
}

TEST_CASE("int8 scan: every variant finds what the definition says, bit for bit") {
  Random random(1);
  for (const size_t dim : {1, 3, 4, 5, 31, 64, 130}) {
    for (const size_t queries : {1, 4, 5, 9, 12, 13, 31}) {
      for (const size_t rows : {1, 15, 16, 17, 32, 33, 80}) {
        const Case c(queries, rows, dim, &random);
        const std::vector<Int8Hit> expected = c.Expected();
        for (const Int8Scan* scan : Available()) {
          CAPTURE(scan->name);
          CAPTURE(dim);
          CAPTURE(queries);
          CAPTURE(rows);
          REQUIRE(Equal(c.Find(*scan), expected));
        }
      }
    }
  }
}

TEST_CASE("int8 scores: every variant writes what the definition says, and nothing else") {
  Random random(5);
  for (const size_t dim : {1, 5, 64, 130}) {
    for (const size_t queries : {1, 4, 7, 13, 31}) {
      for (const size_t rows : {1, 7, 8, 9, 16, 17, 31, 33, 80}) {
        Case c(queries, rows, dim, &random);
        std::fill_n(c.thresholds.begin(), queries, std::numeric_limits<float>::lowest());
        const Int8Panels a = c.queries.InPanels(kInt8PanelQueries);
        const Int8Panels b = c.rows.InPanels(kInt8PanelRows);
        const size_t stride = rows + 3;
        constexpr float kUntouched = 1e30f;
        std::vector<float> expected((queries + 2) * stride, kUntouched);
        for (const Int8Hit& hit : c.Expected()) expected[hit.query * stride + hit.row] = hit.score;
        for (const Int8Scan* scan : Available()) {
          CAPTURE(scan->name);
          CAPTURE(dim);
          CAPTURE(queries);
          CAPTURE(rows);
          std::vector<float> out(expected.size(), kUntouched);
          scan->score(a.units(), queries, a.values(0), a.scales(0), rows, b.values(0), b.scales(0),
                      c.bias.data(), out.data(), stride);
          REQUIRE(std::ranges::equal(out, expected));
        }
      }
    }
  }
}

TEST_CASE("int8 scan: no sum saturates") {
  constexpr size_t kDim = 4096;
  Random random(2);
  Case c(4, 16, kDim, &random);
  std::fill(c.queries.values.begin(), c.queries.values.end(), 127.0f);
  for (size_t j = 0; j < 16; ++j) {
    std::fill_n(c.rows.values.begin() + static_cast<ptrdiff_t>(j * kDim), kDim,
                j % 2 == 0 ? 127.0f : -127.0f);
    c.bias[j] = 0;
  }
  std::fill(c.thresholds.begin(), c.thresholds.end(), -kInfinity);
  for (const Int8Scan* scan : Available()) {
    const std::vector<Int8Hit> hits = c.Find(*scan);
    REQUIRE(hits.size() == 64);
    for (const Int8Hit& hit : hits) {
      CHECK(hit.score == (hit.row % 2 == 0 ? 1.0f : -1.0f) * 127.0f * 127.0f * kDim);
    }
  }
}

TEST_CASE("int8 scan: scores are near the exact ones") {
  constexpr size_t kDim = 100;
  Random random(3);
  Case c(8, 64, kDim, &random);
  for (float& h : c.queries.values) h = std::max(0.0f, static_cast<float>(random.Normal()));
  for (float& w : c.rows.values) w = static_cast<float>(random.Normal());
  std::fill(c.thresholds.begin(), c.thresholds.end(), std::numeric_limits<float>::lowest());
  const std::vector<Int8Hit> hits = c.Find(BestInt8Scan());
  REQUIRE(hits.size() == 8 * 64);
  double squares = 0;
  for (const Int8Hit& hit : hits) {
    double exact = c.bias[hit.row];
    for (size_t p = 0; p < kDim; ++p) {
      exact += double{c.queries.values[hit.query * kDim + p]} *
               double{c.rows.values[hit.row * kDim + p]};
    }
    squares += (double{hit.score} - exact) * (double{hit.score} - exact);
  }
  // Rounding errors of both, uniform over a step each: sqrt(100 (s_h^2 E w^2 + s_w^2 E h^2) / 12)
  // with steps of about 2.6 / 127 and E w^2 = 1, E h^2 = 1/2.
  CHECK(std::sqrt(squares / 512) < 0.09);
  CHECK(std::sqrt(squares / 512) > 0.05);
}

TEST_CASE("int8 panels: values are rounded to nearest, and a vector of zeros stays one") {
  const std::vector<float> x = {127.0f, 2.5f, -2.4f, 0.1f, -0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  Int8Panels panels(4, 5);
  panels.Resize(2);
  panels.Set(0, 2, x.data(), BestKernels());
  REQUIRE(panels.units() == 2);
  const std::vector<int8_t> expected = {127, 2, -2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                        0,   0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  CHECK(std::equal(expected.begin(), expected.end(), panels.values(0)));
  CHECK(panels.scales(0)[0] == 1.0f);
  CHECK(panels.scales(0)[1] == 0.0f);
}

TEST_CASE("int8 panels: a part can be set anew") {
  Random random(4);
  const Vectors x(40, 7, -127, &random);
  Vectors y(16, 7, -127, &random);
  Int8Panels panels = x.InPanels(16);
  panels.Set(16, 16, y.values.data(), BestKernels());
  Vectors both = x;
  std::ranges::copy(y.values, both.values.begin() + 16 * 7);
  const Int8Panels expected = both.InPanels(16);
  CHECK(panels.size() == 48);
  CHECK(std::equal(panels.values(0), panels.values(3), expected.values(0)));
  CHECK(std::equal(panels.scales(0), panels.scales(3), expected.scales(0)));
  CHECK(panels.scales(0)[45] == 0);
}

}  // namespace
}  // namespace dslide::int8_scan_test
