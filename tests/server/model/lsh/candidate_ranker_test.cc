#include "server/model/lsh/candidate_ranker.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "common/base/random.h"

namespace dslide::candidate_ranker_test {
namespace {

using Codes = std::vector<BucketCode>;

struct Candidate {
  uint32_t row;
  uint32_t count;
  size_t order;  // of its first bucket entry
};

// The ranking by a full sort; `entries` is how many bucket entries there are.
std::vector<uint32_t> RankBySorting(const HashTables& tables, const Codes& codes, size_t limit,
                                    uint64_t* entries) {
  std::vector<Candidate> found;
  *entries = 0;
  for (uint32_t t = 0; t < tables.size(); ++t) {
    for (uint32_t row : tables.Bucket(t, codes[t])) {
      ++*entries;
      const auto it = std::find_if(found.begin(), found.end(),
                                   [&](const Candidate& c) { return c.row == row; });
      if (it == found.end()) {
        found.push_back({row, 1, found.size()});
      } else {
        ++it->count;
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.count > b.count; });
  if (found.size() > limit) found.resize(limit);
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.order < b.order; });
  std::vector<uint32_t> rows;
  for (const Candidate& c : found) rows.push_back(c.row);
  return rows;
}

// By the definition: certain above the cut, at the cut all alike, and as many as expected.
void CheckChances(const HashTables& tables, const Codes& codes, uint32_t expected,
                  std::span<const CandidateRanker::Candidate> candidates) {
  std::map<uint32_t, uint32_t> counts;
  for (uint32_t t = 0; t < tables.size(); ++t) {
    for (const uint32_t row : tables.Bucket(t, codes[t])) ++counts[row];
  }
  std::map<uint32_t, float> chances;
  double sum = 0;
  for (const auto& [row, pi] : candidates) {
    CHECK(chances.try_emplace(row, pi).second);
    CHECK(pi > 0);
    sum += double{pi};
  }
  const double reachable = std::min<double>(expected, static_cast<double>(counts.size()));
  CHECK(sum == doctest::Approx(reachable).epsilon(1e-5));
  bool right = true;
  for (const auto& [row, count] : counts) {
    const auto no_fewer = std::ranges::count_if(
        counts, [&, least = count](const auto& other) { return other.second >= least; });
    const auto more = std::ranges::count_if(
        counts, [&, most = count](const auto& other) { return other.second > most; });
    const auto found = chances.find(row);
    const double pi = found == chances.end() ? 0.0 : double{found->second};
    const double share =
        static_cast<double>(expected - more) / static_cast<double>(no_fewer - more);
    const double defined = no_fewer <= expected ? 1.0 : more >= expected ? 0.0 : share;
    right = right && std::abs(pi - defined) < 1e-6;
  }
  CHECK(right);
}

TEST_CASE("CandidateRanker equals a full sort, and its chances are those of the definition") {
  Random random(11);
  for (int round = 0; round < 40; ++round) {
    const uint32_t table_count = 1 + static_cast<uint32_t>(random.Below(20));
    const uint32_t bits = 1 + static_cast<uint32_t>(random.Below(4));
    const uint32_t rows = static_cast<uint32_t>(random.Below(200));
    HashTables tables(table_count, bits, rows);
    Codes codes(table_count);
    const auto draw_codes = [&] {
      for (BucketCode& code : codes) code = static_cast<BucketCode>(random.Below(1u << bits));
    };
    for (uint32_t row = 0; row < rows; ++row) {
      if (random.Below(10) == 0) continue;
      draw_codes();
      tables.SetCodes(row, codes);
    }
    tables.BuildAll();
    CandidateRanker ranker(rows / 2);
    ranker.Resize(rows);
    for (int query = 0; query < 50; ++query) {
      draw_codes();
      const uint32_t limit = static_cast<uint32_t>(random.Below(rows + 10));
      CAPTURE(limit);
      uint64_t entries = 0;
      std::vector<uint32_t> expected = RankBySorting(tables, codes, limit, &entries);
      expected.insert(expected.begin(), 4711);
      std::vector<uint32_t> actual = {4711};  // what is there stays
      CHECK(ranker.Rank(tables, codes, limit, &actual) == entries);
      CHECK(actual == expected);
      if (limit > 0) CheckChances(tables, codes, limit, ranker.Candidates(tables, codes, limit));
    }
  }
}

}  // namespace
}  // namespace dslide::candidate_ranker_test
