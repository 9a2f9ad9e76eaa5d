#include "common/run/combine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "common/base/random.h"

namespace dslide::combine_test {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// What a server reports of one row of logits.
ActiveReply FromLogits(const std::vector<std::vector<float>>& rows) {
  ActiveReply reply;
  for (const std::vector<float>& logits : rows) {
    float max = kMinusInfinity;
    for (const float z : logits) max = std::max(max, z);
    double sum = 0;
    for (const float z : logits) sum += std::exp(double{z} - max);
    reply.max.push_back(max);
    reply.sum_exp.push_back(static_cast<float>(sum));
    reply.target_logit.push_back(logits.empty() ? 0 : logits[0]);
    reply.active.push_back(static_cast<uint32_t>(logits.size()));
  }
  reply.active_rows = 1;
  return reply;
}

// log(sum exp(z)) in long double.
double Reference(const std::vector<float>& logits) {
  long double max = -HUGE_VALL;
  for (const float z : logits) max = std::max<long double>(max, z);
  if (logits.empty()) return -HUGE_VAL;
  long double sum = 0;
  for (const float z : logits) sum += std::exp(z - max);
  return static_cast<double>(max + std::log(sum));
}

TEST_CASE("combine: matrices add up elementwise") {
  std::vector<PartialSum> parts;
  for (size_t p = 0; p < 3; ++p) {
    Matrix part(2, 2);
    for (size_t i = 0; i < 4; ++i) part.data[i] = static_cast<float>((p + 1) * (i + 1));
    parts.emplace_back(std::move(part));
  }
  const Matrix sum = InFloats(SumPartials(parts));
  CHECK(sum.rows == 2);
  CHECK(sum.cols == 2);
  CHECK(sum.data == std::vector<float>{6, 12, 18, 24});
  CHECK(SumPartials({parts[1]}) == parts[1]);
}

TEST_CASE("combine: log-sum-exp over parts is that of all logits, at any magnitude") {
  Random random(1);
  for (const float scale : {0.01f, 1.0f, 30.0f, 1e4f, 1e20f, 1e38f}) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      const size_t rows = 4;
      std::vector<std::vector<float>> all(rows);
      std::vector<ActiveReply> parts;
      for (size_t p = 0; p < 1 + random.Below(5); ++p) {
        std::vector<std::vector<float>> mine(rows);
        for (size_t i = 0; i < rows; ++i) {
          // Often none: a server that scored nothing for this sample.
          for (uint64_t n = random.Below(4); n > 0; --n) {
            mine[i].push_back(static_cast<float>(random.Uniform() * 2 - 1) * scale);
            all[i].push_back(mine[i].back());
          }
        }
        parts.push_back(FromLogits(mine));
      }
      const std::vector<float> log_normaliser = LogNormaliser(MergeActive(parts));
      for (size_t i = 0; i < rows; ++i) {
        const double want = Reference(all[i]);
        if (all[i].empty()) {
          CHECK(log_normaliser[i] == kMinusInfinity);
        } else {
          CHECK(std::isfinite(log_normaliser[i]));
          CHECK(std::abs(log_normaliser[i] - want) <= 1e-6 * std::max(1.0, std::abs(want)));
        }
      }
    }
  }
}

TEST_CASE("combine: the merged maximum and sum by hand") {
  const ActiveReply merged =
      MergeActive({FromLogits({{0, 0}, {}, {1000}}), FromLogits({{0}, {}, {-1000}}),
                   FromLogits({{}, {}, {1000}})});
  CHECK(merged.max == std::vector<float>{0, kMinusInfinity, 1000});
  CHECK(merged.sum_exp == std::vector<float>{3, 0, 2});
  CHECK(merged.active == std::vector<uint32_t>{3, 0, 3});
  CHECK(merged.active_rows == 3);
}

TEST_CASE("combine: counts, targets and losses add up") {
  ActiveReply a{{1}, {1}, {0.5f}, {3}, {2.0f}, 10, {}};
  ActiveReply b{{2}, {1}, {0.25f}, {4}, {1.0f}, 20, {}};
  const ActiveReply merged = MergeActive({a, b});
  CHECK(merged.target_logit == std::vector<float>{0.75f});
  CHECK(merged.active == std::vector<uint32_t>{7});
  CHECK(merged.loss == std::vector<float>{3.0f});
  CHECK(merged.active_rows == 30);
  CHECK(MergeActive({a}) == a);
}

TEST_CASE("combine: variances of independent sums add up") {
  // Sums 3 and 1 e^2 with variances 0.5 * 3^2 and 0.25 * e^4.
  ActiveReply a{{0, 0}, {3, 1}, {0, 0}, {3, 1}, {}, 3, {}, {0.5f}};
  ActiveReply b{{2, kMinusInfinity}, {1, 0}, {0, 0}, {1, 0}, {}, 1, {}, {0.25f}};
  const double sum = 3 + std::exp(2.0);
  const ActiveReply merged = MergeActive({a, b});
  REQUIRE(merged.tail_variance.size() == 1);
  CHECK(merged.tail_variance[0] == doctest::Approx((0.5 * 9 + 0.25 * std::exp(4.0)) / (sum * sum)));
  b.tail_variance.clear();  // unknown of one part, so of the whole
  CHECK(MergeActive({a, b}).tail_variance.empty());
}

// A matrix of multiples of 2^-30 in fixed point.
FixedMatrix RandomFixed(Random* random) {
  FixedMatrix matrix(3, 5);
  for (int64_t& x : matrix.data) x = (static_cast<int64_t>(random->Below(1 << 20)) - 500'000) << 8;
  return matrix;
}

TEST_CASE("combine: sums in fixed point are the same in every order, and right") {
  Random random(5);
  std::vector<PartialSum> parts;
  Matrix expected(3, 5);
  for (int p = 0; p < 6; ++p) {
    const FixedMatrix part = RandomFixed(&random);
    parts.emplace_back(part);
    for (size_t i = 0; i < part.data.size(); ++i) {
      expected.data[i] += static_cast<float>(std::ldexp(static_cast<double>(part.data[i]), -38));
    }
  }
  const PartialSum sum = SumPartials(parts);
  CHECK(InFloats(sum) == expected);  // few enough bits for floats
  std::ranges::reverse(parts);
  CHECK(SumPartials({SumPartials({parts[0], parts[1]}), SumPartials({parts[2], parts[3], parts[4]}),
                     parts[5]}) == sum);
}

TEST_CASE("combine: sums that leave the range of fixed point are NaN") {
  FixedMatrix most(1, 2);
  most.data = {kFixedSumLimit - 1, 0};
  FixedMatrix one(1, 2);
  one.data = {1, 1};
  const PartialSum sum = SumPartials({most, one});
  CHECK_FALSE(std::get<FixedMatrix>(sum).in_range);
  for (const PartialSum& bad : {sum, SumPartials({one, sum}), SumPartials({sum, one})}) {
    for (const float x : InFloats(bad).data) CHECK(std::isnan(x));
  }
}

TEST_CASE("combine: where some part is in floats, so is the sum") {
  Matrix floats(1, 1);
  floats.data = {0.5f};
  FixedMatrix fixed(1, 1);
  fixed.data = {int64_t{3} << 38};
  CHECK(std::get<Matrix>(SumPartials({fixed, floats})).data == std::vector{3.5f});
}

TEST_CASE("combine: sums of exponentials make normalisers that do not depend on the parts") {
  Random random(6);
  std::vector<ActiveReply> parts;
  std::vector<float> logits;
  for (int p = 0; p < 5; ++p) {
    std::vector<float> here(1 + random.Below(4));
    for (float& z : here) z = static_cast<float>(60 * random.Uniform() - 20);
    logits.insert(logits.end(), here.begin(), here.end());
    parts.push_back(FromLogits({here}));
    parts[p].exp_sums.resize(1);
    parts[p].exp_sums[0].Add(parts[p].max[0], parts[p].sum_exp[0]);
    UseExpSums(&parts[p]);
  }
  const ActiveReply merged = MergeActive(parts);
  CHECK(merged.sum_exp == std::vector{1.0f});
  CHECK(LogNormaliser(merged)[0] == doctest::Approx(Reference(logits)).epsilon(1e-6));
  ActiveReply two = MergeActive({parts[3], parts[1]});
  Condense(&two);  // as on the wire
  ActiveReply three = MergeActive({parts[0], parts[4], parts[2]});
  Condense(&three);
  CHECK(MergeActive({three, two}).max == merged.max);
  CHECK(MergeActive({three, two}).exp_sums == merged.exp_sums);
  parts[2].exp_sums.clear();
  CHECK(MergeActive(parts).exp_sums.empty());
  CHECK(LogNormaliser(MergeActive(parts))[0] == doctest::Approx(Reference(logits)).epsilon(1e-6));
}

TEST_CASE("combine: probes keep the best neurons of all parts with their marks") {
  // Part p has neurons with ids = p modulo 3; an id's logit and marks follow from the id.
  const auto logit = [](uint32_t id) { return static_cast<float>((id * 37) % 50); };
  std::vector<ActiveReply> parts;
  std::vector<uint32_t> ids;
  for (uint32_t p = 0; p < 3; ++p) {
    ActiveReply part{{0, 0}, {1, 1}, {0, 0}, {1, 1}, {}, 1, std::vector<Probe>(2)};
    for (uint32_t id = p; id < 24; id += 3) {
      ids.push_back(id);
      Probe& probe = part.probes[0];
      probe.ids.push_back(id);
      probe.logits.push_back(logit(id));
      probe.in_set.push_back(id % 2);
      probe.in_hash.push_back(id % 4 == 0);
    }
    part.probes[1] = {{100 + p}, {1.0f}, {1}, {0}};
    parts.push_back(part);
  }
  std::sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) { return logit(a) > logit(b); });
  const ActiveReply merged = MergeActive(parts);
  REQUIRE(merged.probes.size() == 2);
  const Probe& best = merged.probes[0];
  REQUIRE(best.ids.size() == kProbeNeurons);
  for (size_t e = 0; e < kProbeNeurons; ++e) {
    CHECK(best.ids[e] == ids[e]);
    CHECK(best.logits[e] == logit(ids[e]));
    CHECK(best.in_set[e] == ids[e] % 2);
    CHECK(best.in_hash[e] == (ids[e] % 4 == 0));
  }
  CHECK(merged.probes[1].ids == std::vector<uint32_t>{100, 101, 102});  // equal: by id
}

TEST_CASE("combine: probes of one part only are kept") {
  ActiveReply with{{0}, {1}, {0}, {1}, {}, 1, {Probe{{4}, {2.0f}, {1}, {1}}}};
  ActiveReply without = with;
  without.probes.clear();
  CHECK(MergeActive({without, with}).probes == with.probes);
}

// Brute force: every (score, id) of a row, sorted.
std::vector<uint32_t> NaiveTopK(const std::vector<TopKReply>& parts, size_t row, size_t k) {
  std::vector<std::pair<float, uint32_t>> all;
  for (const TopKReply& part : parts) {
    for (uint32_t e = part.offsets[row]; e < part.offsets[row + 1]; ++e) {
      all.emplace_back(-part.scores[e], part.ids[e]);
    }
  }
  std::sort(all.begin(), all.end());
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < std::min(k, all.size()); ++i) ids.push_back(all[i].second);
  return ids;
}

TEST_CASE("combine: top-k merge against brute force, with ties and short rows") {
  Random random(2);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const size_t rows = random.Below(5);
    std::vector<TopKReply> parts(1 + random.Below(4));
    for (size_t p = 0; p < parts.size(); ++p) {
      for (size_t i = 0; i < rows; ++i) {
        for (uint64_t n = random.Below(8); n > 0; --n) {
          const uint64_t id = random.Below(1000) * parts.size() + p;
          parts[p].ids.push_back(static_cast<uint32_t>(id));
          parts[p].scores.push_back(static_cast<float>(random.Below(6)));  // many ties
        }
        parts[p].offsets.push_back(static_cast<uint32_t>(parts[p].ids.size()));
      }
    }
    const uint32_t k = static_cast<uint32_t>(random.Below(10));
    const TopKReply merged = MergeTopK(parts, k);
    REQUIRE(merged.offsets.size() == rows + 1);
    REQUIRE(merged.scores.size() == merged.ids.size());
    for (size_t i = 0; i < rows; ++i) {
      const std::vector<uint32_t> got(merged.ids.begin() + merged.offsets[i],
                                      merged.ids.begin() + merged.offsets[i + 1]);
      CHECK(got == NaiveTopK(parts, i, k));
      CHECK(std::is_sorted(merged.scores.begin() + merged.offsets[i],
                           merged.scores.begin() + merged.offsets[i + 1], std::greater<float>()));
    }
  }
}

}  // namespace
}  // namespace dslide::combine_test
