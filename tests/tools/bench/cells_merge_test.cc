#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "tools/bench/cells/merge.h"

namespace dslide::cells {
namespace {

using Row = std::vector<float>;

Row Merge(MergeRule rule, const std::vector<Row>& changes, const std::vector<float>& touches,
          float few = 8) {
  std::vector<RowPart> parts;
  for (size_t i = 0; i < changes.size(); ++i) parts.push_back({changes[i].data(), touches[i]});
  Row merged;
  MergeParts(rule, few, changes[0].size(), parts, &merged);
  return merged;
}

void CheckClose(const Row& found, const Row& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(wanted[i]));
}

constexpr MergeRule kRules[] = {MergeRule::kAverage, MergeRule::kSum, MergeRule::kRoot,
                                MergeRule::kAdasum, MergeRule::kCapped};

TEST_CASE("cells: what one group alone has changed is taken as it is by every rule") {
  for (const MergeRule rule : kRules) CheckClose(Merge(rule, {{3, -4, 0.5}}, {100}), {3, -4, 0.5});
}

TEST_CASE("cells: an average is weighted by touches, and a root divides by that of the parts") {
  CheckClose(Merge(MergeRule::kAverage, {{4, 0}, {0, 8}}, {3, 1}), {3, 2});
  CheckClose(Merge(MergeRule::kSum, {{4, 0}, {1, 8}}, {3, 1}), {5, 8});
  const float half = 1 / std::numbers::sqrt2_v<float>;
  CheckClose(Merge(MergeRule::kRoot, {{4, 0}, {1, 8}}, {3, 1}), {5 * half, 8 * half});
}

TEST_CASE("cells: Adasum adds orthogonal changes and averages equal ones") {
  CheckClose(Merge(MergeRule::kAdasum, {{3, 0, 0}, {0, 5, 0}}, {1, 1}), {3, 5, 0});
  CheckClose(Merge(MergeRule::kAdasum, {{3, 1}, {3, 1}}, {1, 9}), {3, 1});
  CheckClose(Merge(MergeRule::kAdasum, {{3, 1}, {3, 1}, {3, 1}, {3, 1}}, {1, 1, 1, 1}), {3, 1});
  CheckClose(Merge(MergeRule::kAdasum, {{0, 0}, {2, 1}}, {1, 1}), {2, 1});
  // By hand: a.b = 2, |a|^2 = 4, |b|^2 = 2: 3/4 a + 1/2 b.
  CheckClose(Merge(MergeRule::kAdasum, {{2, 0}, {1, 1}}, {1, 1}), {2, 0.5});
}

TEST_CASE("cells: a capped sum is whole up to few touches, and never less than the mean") {
  const std::vector<Row> changes = {{2, 0}, {4, 2}};
  CheckClose(Merge(MergeRule::kCapped, changes, {3, 5}), {6, 2});
  CheckClose(Merge(MergeRule::kCapped, changes, {4, 6}), {4.8f, 1.6f});
  CheckClose(Merge(MergeRule::kCapped, changes, {900, 100}), {3, 1});
}

TEST_CASE("cells: rounding to 8 bits is off by half a scale at most, and keeps zeros") {
  Row x = {-2.54f, 0, 1.27f, 0.013f, 0.004f};
  const Row before = x;
  RoundToInt8(x.size(), x.data());
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(std::abs(x[i] - before[i]) <= 0.02f / 2 + 1e-6f);
    const float steps = x[i] / 0.02f;
    CHECK(steps == doctest::Approx(std::round(steps)));
  }
  Row zeros(3);
  RoundToInt8(3, zeros.data());
  CHECK(zeros == Row(3));
}

TEST_CASE("cells: an unknown rule is refused by its name") {
  CHECK(*ParseMergeRule("adasum") == MergeRule::kAdasum);
  const Result<MergeRule> unknown = ParseMergeRule("mean");
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().message.find("mean") != std::string::npos);
}

}  // namespace
}  // namespace dslide::cells
