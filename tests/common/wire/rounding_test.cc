#include "common/wire/rounding.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "common/base/random.h"
#include "tests/support/floats.h"

namespace dslide::rounding_test {
namespace {

// Checks `rows` against a trip over the wire, bit by bit.
void CheckAsOnWire(SparseRows rows) {
  for (const WirePrecision precision :
       {WirePrecision::kFp32, WirePrecision::kBf16, WirePrecision::kInt8}) {
    SparseRows rounded = rows;
    const Result<Message> received = Decode(Encode({{}, EmbedRequest{{}, true, rows}}, precision));
    REQUIRE(RoundAsOnWire(precision, &rounded) == received.ok());
    if (!received.ok()) continue;
    const SparseRows& wanted = std::get<EmbedRequest>(received->body).features;
    CHECK(rounded.offsets == wanted.offsets);
    CHECK(rounded.ids == wanted.ids);
    REQUIRE(rounded.values.size() == wanted.values.size());
    for (size_t i = 0; i < wanted.values.size(); ++i) {
      CHECK(std::bit_cast<uint32_t>(rounded.values[i]) ==
            std::bit_cast<uint32_t>(wanted.values[i]));
    }
  }
}

SparseRows Rows(std::vector<std::vector<float>> values) {
  SparseRows rows;
  for (const std::vector<float>& row : values) {
    for (const float value : row) {
      rows.ids.push_back(static_cast<uint32_t>(rows.ids.size()));
      rows.values.push_back(value);
    }
    rows.EndRow();
  }
  return rows;
}

TEST_CASE("values are rounded as on the wire") {
  Random random(5);
  for (int repeat = 0; repeat < 300; ++repeat) {
    std::vector<std::vector<float>> values(1 + random.Below(6));
    for (std::vector<float>& row : values) {
      row.resize(random.Below(40));
      const int exponent = static_cast<int>(random.Below(200)) - 100;
      for (float& value : row) {
        const auto x = static_cast<float>(random.Uniform() - 0.5);
        value = random.Below(4) == 0 ? 0.0f : std::ldexp(x, exponent);
      }
    }
    CheckAsOnWire(Rows(std::move(values)));
  }
}

TEST_CASE("values at the ends of the range are rounded, or refused, as on the wire") {
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
  CheckAsOnWire({});
  CheckAsOnWire(Rows({{}, {1.0f}, {}}));
  CheckAsOnWire(Rows({{-0.0f, 0.0f}, {kDenormal, -kDenormal, 1e-40f}, {1e-30f, 1e30f}}));
  CheckAsOnWire(Rows({{1.0f}, {kMax, -kMax, 0x1.fep127f}}));  // bf16 rounds the largest to infinity
  CheckAsOnWire(Rows({{1.0f, kInfinity}}));
  CheckAsOnWire(Rows({{1.0f}, {-kInfinity}}));
  CheckAsOnWire(Rows({{std::numeric_limits<float>::quiet_NaN()}, {1.0f}}));
  SparseRows without_values = Rows({{1.0f}, {2.0f}});
  without_values.values.clear();
  CheckAsOnWire(without_values);
}

}  // namespace
}  // namespace dslide::rounding_test
