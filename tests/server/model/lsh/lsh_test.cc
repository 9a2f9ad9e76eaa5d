#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "server/model/lsh/candidate_ranker.h"
#include "server/model/lsh/hash_family.h"
#include "server/model/lsh/hash_tables.h"

namespace dslide {
namespace {

constexpr uint64_t kSeed = 20240607;

std::vector<const Kernels*> AvailableKernels() {
  std::vector<const Kernels*> available;
  for (const char* name : {"scalar", "avx2", "avx512"}) {
    if (const Kernels* kernels = KernelsByName(name)) available.push_back(kernels);
  }
  return available;
}

HashConfig Config(HashFamily family, uint32_t k, uint32_t tables, uint32_t bin = 8) {
  HashConfig config;
  config.family = family;
  config.k = k;
  config.tables = tables;
  config.bin = bin;
  return config;
}

std::unique_ptr<HashFunctions> Make(const HashConfig& config, uint32_t dim) {
  return HashFunctions::Make(config, dim, kSeed, BestKernels());
}

using Codes = std::vector<BucketCode>;

Codes CodesOf(const HashFunctions& hashes, const std::vector<float>& x) {
  Codes codes(hashes.tables());
  hashes.Codes(1, x.data(), x.size(), codes.data());
  return codes;
}

std::vector<float> NormalVector(size_t dim, Random* random) {
  std::vector<float> x(dim);
  for (float& value : x) value = static_cast<float>(random->Normal());
  return x;
}

// Small integers, many of them zero: sums of them are exact whatever the order of the additions.
std::vector<float> IntegerVector(size_t dim, Random* random) {
  std::vector<float> x(dim);
  for (float& value : x) {
    value = random->Below(2) == 0 ? 0.0f : static_cast<float>(random->Below(17)) - 8.0f;
  }
  return x;
}

double AgreeingShare(const Codes& x, const Codes& y) {
  size_t agreeing = 0;
  for (size_t i = 0; i < x.size(); ++i) agreeing += x[i] == y[i];
  return static_cast<double>(agreeing) / static_cast<double>(x.size());
}

// Four standard deviations of a share that is estimated from n draws.
double Bound(double share, double n) { return 4 * std::sqrt(share * (1 - share) / n) + 1e-9; }

TEST_CASE("SimHash: two vectors at angle theta agree on a bit with probability 1 - theta/pi") {
  constexpr size_t kDim = 64;
  constexpr uint32_t kHashes = 20000;
  const auto hashes = Make(Config(HashFamily::kSimHash, 1, kHashes), kDim);
  Random random(1);
  const std::vector<float> x = NormalVector(kDim, &random);
  const std::vector<float> y = NormalVector(kDim, &random);
  for (float weight : {-1.0f, 0.0f, 0.3f, 1.0f, 3.0f}) {
    std::vector<float> mixed(kDim);
    for (size_t d = 0; d < kDim; ++d) mixed[d] = y[d] + weight * x[d];
    const auto inner = [](const auto& a, const auto& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    const double theta = std::acos(inner(x, mixed) / std::sqrt(inner(x, x) * inner(mixed, mixed)));
    const double expected = 1 - theta / std::acos(-1.0);
    // 0.01: signs are not normal, so 1 - theta/pi holds up to O(1/dim).
    CHECK(std::abs(AgreeingShare(CodesOf(*hashes, x), CodesOf(*hashes, mixed)) - expected) <
          Bound(expected, kHashes) + 0.01);
  }
}

size_t Winner(const std::vector<float>& x, const std::vector<size_t>& bin) {
  size_t best = 0;
  for (size_t j = 1; j < bin.size(); ++j) {
    if (x[bin[j]] > x[bin[best]]) best = j;
  }
  return best;
}

// The share of random bins of `size` coordinates whose largest is the same in x and y.
double BruteForceAgreement(const std::vector<float>& x, const std::vector<float>& y, size_t size) {
  constexpr int kBins = 50000;
  std::mt19937 generator(7);
  std::vector<size_t> coordinates(x.size());
  std::iota(coordinates.begin(), coordinates.end(), size_t{0});
  int agreeing = 0;
  for (int i = 0; i < kBins; ++i) {
    std::vector<size_t> bin;
    std::sample(coordinates.begin(), coordinates.end(), std::back_inserter(bin), size, generator);
    agreeing += Winner(x, bin) == Winner(y, bin);
  }
  return static_cast<double>(agreeing) / kBins;
}

TEST_CASE("DWTA: two vectors agree on a bin as often as on a random one") {
  constexpr size_t kDim = 100;
  constexpr uint32_t kHashes = 20000;
  Random random(2);
  const std::vector<float> x = NormalVector(kDim, &random);
  const std::vector<float> noise = NormalVector(kDim, &random);
  for (uint32_t bin : {2u, 4u, 8u, 16u}) {
    CAPTURE(bin);
    const auto hashes = Make(Config(HashFamily::kDwta, 1, kHashes, bin), kDim);
    for (float weight : {0.2f, 1.0f, 5.0f}) {
      std::vector<float> y(kDim);
      for (size_t d = 0; d < kDim; ++d) y[d] = x[d] + weight * noise[d];
      const double expected = BruteForceAgreement(x, y, bin);
      // Twice: the reference is an estimate as well. (Disjoint bins vary less than random ones.)
      CHECK(std::abs(AgreeingShare(CodesOf(*hashes, x), CodesOf(*hashes, y)) - expected) <
            2 * Bound(expected, kHashes));
    }
  }
}

TEST_CASE("DWTA depends on the order of the coordinates only") {
  constexpr size_t kDim = 50;
  const auto hashes = Make(Config(HashFamily::kDwta, 1, 1000), kDim);
  Random random(3);
  const std::vector<float> x = NormalVector(kDim, &random);
  std::vector<float> y = x;
  for (float& value : y) value = std::exp(2 * value) + 1;
  CHECK(CodesOf(*hashes, x) == CodesOf(*hashes, y));
}

TEST_CASE("DWTA: independent vectors agree on 1/bin of the bins") {
  constexpr size_t kDim = 64;
  constexpr int kPairs = 2000;
  Random random(4);
  for (uint32_t bin : {2u, 8u, 16u}) {
    CAPTURE(bin);
    // One permutation's worth of bins: they are disjoint, hence independent.
    const uint32_t tables = static_cast<uint32_t>(kDim) / bin;
    const auto hashes = Make(Config(HashFamily::kDwta, 1, tables, bin), kDim);
    double share = 0;
    for (int i = 0; i < kPairs; ++i) {
      const Codes x = CodesOf(*hashes, NormalVector(kDim, &random));
      share += AgreeingShare(x, CodesOf(*hashes, NormalVector(kDim, &random))) / kPairs;
    }
    CHECK(std::abs(share - 1.0 / bin) < Bound(1.0 / bin, double{kPairs} * tables));
  }
}

TEST_CASE("every bucket of every table is reachable") {
  constexpr size_t kDim = 64;
  // About 24 a bucket, were the codes uniform. DWTA's are, because the bins of a table are
  // disjoint; SimHash's directions are not quite orthogonal, hence it gets fewer bits.
  constexpr size_t kVectors = 12000;
  constexpr uint32_t kTables = 6;
  Random random(5);
  std::vector<float> x;
  for (size_t i = 0; i < kVectors; ++i) {
    const std::vector<float> vector = NormalVector(kDim, &random);
    x.insert(x.end(), vector.begin(), vector.end());
  }
  for (const HashConfig& config :
       {Config(HashFamily::kDwta, 3, kTables, 8), Config(HashFamily::kDwta, 2, kTables, 16),
        Config(HashFamily::kDwta, 9, kTables, 2), Config(HashFamily::kSimHash, 6, kTables)}) {
    const auto hashes = Make(config, kDim);
    Codes codes(kVectors * kTables);
    hashes->Codes(kVectors, x.data(), kDim, codes.data());
    std::vector<int> sizes(size_t{kTables} * hashes->buckets());
    for (size_t i = 0; i < codes.size(); ++i) {
      REQUIRE(codes[i] < hashes->buckets());
      ++sizes[i % kTables * hashes->buckets() + codes[i]];
    }
    CHECK(std::count(sizes.begin(), sizes.end(), 0) == 0);
  }
}

TEST_CASE("bits and buckets follow the configuration") {
  const auto dwta = Make(Config(HashFamily::kDwta, 4, 50, 8), 128);
  CHECK(dwta->tables() == 50);
  CHECK(dwta->bits() == 12);
  CHECK(dwta->buckets() == 4096);
  const auto simhash = Make(Config(HashFamily::kSimHash, 9, 3), 128);
  CHECK(simhash->tables() == 3);
  CHECK(simhash->bits() == 9);
  CHECK(simhash->buckets() == 512);
}

// Two vectors with 20 ones each in 1,000 dimensions, `shared` of them at the same places.
std::array<std::vector<float>, 2> SparsePair(size_t shared) {
  constexpr size_t kOnes = 20;
  std::array<std::vector<float>, 2> pair = {std::vector<float>(1000), std::vector<float>(1000)};
  for (size_t i = 0; i < kOnes; ++i) {
    pair[0][i * 37] = 1.0f;
    pair[1][i * 37 + (i < shared ? 0 : 1)] = 1.0f;
  }
  return pair;
}

TEST_CASE("DWTA densification: collisions of sparse vectors rise with their overlap") {
  const auto hashes = Make(Config(HashFamily::kDwta, 1, 5000), 1000);
  double last = 0;
  for (size_t shared : {0, 5, 10, 15, 20}) {
    const auto [x, y] = SparsePair(shared);
    const double share = AgreeingShare(CodesOf(*hashes, x), CodesOf(*hashes, y));
    CHECK(share > last + 0.05);
    last = share;
  }
  CHECK(last == 1.0);
}

TEST_CASE("DWTA densification spreads the codes of sparse vectors") {
  const auto hashes = Make(Config(HashFamily::kDwta, 1, 5000), 1000);
  const Codes codes = CodesOf(*hashes, SparsePair(0)[0]);
  for (uint32_t code = 0; code < 8; ++code) {
    const double share = static_cast<double>(std::count(codes.begin(), codes.end(), code)) / 5000.0;
    CHECK(share == doctest::Approx(1.0 / 8).epsilon(0.3));
  }
}

TEST_CASE("the zero vector and a single non-zero coordinate have codes in range") {
  for (HashFamily family : {HashFamily::kDwta, HashFamily::kSimHash}) {
    for (uint32_t dim : {1u, 3u, 8u, 500u}) {
      const auto hashes = Make(Config(family, 3, 20), dim);
      std::vector<float> x(dim);
      const Codes zero = CodesOf(*hashes, x);
      CHECK(zero == CodesOf(*hashes, x));
      x[dim / 2] = -1.0f;
      const Codes single = CodesOf(*hashes, x);
      for (size_t t = 0; t < zero.size(); ++t) {
        CHECK(zero[t] < hashes->buckets());
        CHECK(single[t] < hashes->buckets());
      }
    }
  }
}

TEST_CASE("DWTA codes of the zero vector do not all name the same bucket") {
  const auto hashes = Make(Config(HashFamily::kDwta, 3, 50), 100);
  const Codes codes = CodesOf(*hashes, std::vector<float>(100));
  CHECK(std::count(codes.begin(), codes.end(), codes[0]) < 10);
}

TEST_CASE("codes of a batch equal those one by one, for all kernels and strides") {
  constexpr size_t kDim = 37;
  constexpr size_t kStride = 41;
  constexpr size_t kLargest = 40;
  Random random(6);
  std::vector<float> x(kLargest * kStride);
  for (size_t i = 0; i < kLargest; ++i) {
    if (i % 7 == 3) continue;  // a zero vector
    const std::vector<float> row =
        i % 2 == 0 ? NormalVector(kDim, &random) : IntegerVector(kDim, &random);
    std::copy(row.begin(), row.end(), x.begin() + static_cast<ptrdiff_t>(i * kStride));
  }
  for (HashFamily family : {HashFamily::kDwta, HashFamily::kSimHash}) {
    for (const Kernels* kernels : AvailableKernels()) {
      CAPTURE(kernels->name);
      const auto hashes = HashFunctions::Make(Config(family, 3, 11), kDim, kSeed, *kernels);
      const size_t tables = hashes->tables();
      Codes single(kLargest * tables);
      for (size_t i = 0; i < kLargest; ++i) {
        hashes->Codes(1, x.data() + i * kStride, kStride, single.data() + i * tables);
      }
      for (size_t n = 1; n <= kLargest; ++n) {
        Codes batch(n * tables);
        hashes->Codes(n, x.data(), kStride, batch.data());
        CHECK(std::equal(batch.begin(), batch.end(), single.begin()));
      }
    }
  }
}

TEST_CASE("codes are a function of the seed") {
  const HashConfig config = Config(HashFamily::kDwta, 2, 40);
  Random random(8);
  const std::vector<float> x = NormalVector(64, &random);
  const auto other = HashFunctions::Make(config, 64, kSeed + 1, BestKernels());
  CHECK(CodesOf(*Make(config, 64), x) == CodesOf(*Make(config, 64), x));
  CHECK(AgreeingShare(CodesOf(*Make(config, 64), x), CodesOf(*other, x)) < 0.2);
}

// Checkpoints store codes and rely on every build to compute the same ones.
TEST_CASE("golden codes") {
  struct Golden {
    HashConfig config;
    uint32_t dim;
    Codes codes;
  };
  const Golden goldens[] = {
      {Config(HashFamily::kDwta, 4, 8, 8), 128, {1221, 3533, 3666, 1998, 3951, 2643, 351, 985}},
      {Config(HashFamily::kDwta, 3, 8, 16), 20, {1314, 2128, 304, 1590, 1645, 1749, 2578, 933}},
      {Config(HashFamily::kDwta, 2, 8, 8), 5, {0, 11, 10, 24, 4, 18, 19, 34}},
      {Config(HashFamily::kSimHash, 9, 8), 128, {145, 155, 394, 221, 251, 377, 196, 388}},
  };
  for (const Golden& golden : goldens) {
    CAPTURE(golden.dim);
    Random random(9);
    const std::vector<float> x = IntegerVector(golden.dim, &random);
    for (const Kernels* kernels : AvailableKernels()) {
      CAPTURE(kernels->name);
      CHECK(CodesOf(*HashFunctions::Make(golden.config, golden.dim, kSeed, *kernels), x) ==
            golden.codes);
    }
  }
  const auto hashes = Make(Config(HashFamily::kDwta, 4, 4), 128);
  CHECK(CodesOf(*hashes, std::vector<float>(128)) == Codes{2717, 3053, 1476, 3898});
}

// A bucket of each table, by code, as of the last rebuild.
using ReferenceTable = std::map<uint32_t, std::vector<uint32_t>>;

TEST_CASE("HashTables equal a map under random updates and rebuilds") {
  constexpr uint32_t kTables = 5;
  constexpr uint32_t kBits = 4;
  constexpr uint32_t kRows = 60;
  Random random(10);
  HashTables tables(kTables, kBits, kRows);
  std::vector<Codes> codes(kRows, Codes(kTables, kNoCode));
  std::vector<ReferenceTable> reference(kTables);
  // The table being built, and the codes that its rows were counted with.
  uint32_t next = 0;
  uint32_t step_of_table = 0;
  Codes counted(kRows);
  const auto advance = [&](uint64_t steps) {
    for (; steps > 0; --steps) {
      if (step_of_table < kRows) counted[step_of_table] = codes[step_of_table][next];
      if (++step_of_table < 2 * kRows) continue;
      reference[next].clear();
      for (uint32_t row = 0; row < kRows; ++row) {
        if (counted[row] != kNoCode) reference[next][counted[row]].push_back(row);
      }
      step_of_table = 0;
      next = (next + 1) % kTables;
    }
  };
  for (int step = 0; step < 3000; ++step) {
    const uint64_t action = random.Below(20);
    if (action == 0) {
      tables.BuildAll();
      next = step_of_table = 0;
      advance(tables.StepsOfAllTables());
    } else if (action < 4) {
      const uint64_t steps = random.Below(5 * kRows);
      tables.Advance(steps);
      advance(steps);
    } else {
      const uint32_t row = static_cast<uint32_t>(random.Below(kRows));
      const bool leaves = random.Below(5) == 0;
      for (BucketCode& code : codes[row]) {
        code = leaves ? kNoCode : static_cast<BucketCode>(random.Below(1 << kBits));
      }
      tables.SetCodes(row, codes[row]);
      CHECK(tables.Codes(row) == codes[row]);
    }
    for (uint32_t t = 0; t < kTables; ++t) {
      for (BucketCode code = 0; code < (1u << kBits); ++code) {
        const std::span<const uint32_t> bucket = tables.Bucket(t, code);
        const std::vector<uint32_t>& expected = reference[t][code];
        REQUIRE(std::equal(bucket.begin(), bucket.end(), expected.begin(), expected.end()));
      }
    }
  }
}

bool SameBuckets(const HashTables& a, const HashTables& b, uint32_t bits) {
  for (uint32_t t = 0; t < a.size(); ++t) {
    for (uint32_t code = 0; code < 1u << bits; ++code) {
      const auto x = a.Bucket(t, static_cast<BucketCode>(code));
      const auto y = b.Bucket(t, static_cast<BucketCode>(code));
      if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
    }
  }
  return true;
}

TEST_CASE("HashTables: more rows change no bucket, wherever the building is") {
  constexpr uint32_t kTables = 3, kBits = 3, kRows = 40, kMore = 23;
  Random random(12);
  const auto draw = [&] {
    Codes codes(kTables);
    for (BucketCode& code : codes) code = static_cast<BucketCode>(random.Below(1 << kBits));
    return codes;
  };
  for (uint32_t at = 0; at < 2 * kRows * kTables; ++at) {
    CAPTURE(at);
    HashTables tables(kTables, kBits, kRows), same(kTables, kBits, kRows);
    for (HashTables* each : {&tables, &same}) {
      for (uint32_t row = 0; row < kRows; ++row) each->SetCodes(row, Codes(kTables, row % 8));
      each->BuildAll();
    }
    for (uint32_t row = 0; row < kRows; ++row) {
      const Codes codes = draw();
      tables.SetCodes(row, codes);
      same.SetCodes(row, codes);
    }
    tables.Advance(at);
    same.Advance(at);
    tables.Resize(kRows + kMore);
    REQUIRE(tables.rows() == kRows + kMore);
    CHECK(tables.position() == same.position());
    CHECK(SameBuckets(tables, same, kBits));
    for (uint32_t row = 0; row < kRows; ++row) REQUIRE(tables.Codes(row) == same.Codes(row));
    // New rows are in the tables that are counted after they have codes.
    HashTables fresh(kTables, kBits, kRows + kMore);
    for (uint32_t row = 0; row < kRows + kMore; ++row) {
      const Codes codes = row < kRows ? tables.Codes(row) : draw();
      tables.SetCodes(row, codes);
      fresh.SetCodes(row, codes);
    }
    fresh.BuildAll();
    tables.Advance(2 * tables.StepsOfAllTables());
    CHECK(SameBuckets(tables, fresh, kBits));
  }
}

TEST_CASE("HashTables: tables that get their first rows") {
  HashTables tables(2, 3, 0);
  tables.Advance(100);
  tables.Resize(5);
  tables.SetCodes(3, Codes{1, 2});
  tables.Advance(tables.StepsOfAllTables());
  CHECK(tables.Bucket(0, 1).size() == 1);
  CHECK(tables.Bucket(1, 2).size() == 1);
}

TEST_CASE("HashTables: hidden rows keep their codes and are in no bucket until they are shown") {
  HashTables tables(2, 3, 9);
  for (uint32_t row = 0; row < 9; ++row) tables.SetCodes(row, Codes{1, 2});
  tables.BuildAll();
  tables.Hide(3, 6);
  CHECK(tables.Bucket(0, 1).size() == 9);
  tables.Advance(7);  // what is counted piece by piece
  tables.Advance(tables.StepsOfAllTables() - 7);
  CHECK(tables.Codes(4) == Codes{1, 2});
  const auto bucket = tables.Bucket(1, 2);
  CHECK(std::vector(bucket.begin(), bucket.end()) == std::vector<uint32_t>{0, 1, 2, 6, 7, 8});
  tables.Show(3, 6);
  tables.BuildAll();
  CHECK(tables.Bucket(0, 1).size() == 9);
}

TEST_CASE("HashTables: nothing is in a bucket before its table is built") {
  HashTables tables(2, 3, 4);
  tables.SetCodes(1, Codes{5, 5});
  for (BucketCode code = 0; code < 8; ++code) CHECK(tables.Bucket(0, code).empty());
  tables.Advance(7);
  CHECK(tables.Bucket(0, 5).empty());
  tables.Advance(1);
  CHECK(tables.Bucket(0, 5).size() == 1);
  CHECK(tables.Bucket(1, 5).empty());
  CHECK(HashTables(2, 3, 0).Bucket(1, 7).empty());
}

TEST_CASE("HashTables: occupancy by hand") {
  HashTables tables(2, 2, 5);
  const BucketOccupancy none = tables.Occupancy();
  CHECK(none.empty_share == 1.0);
  CHECK(none.mean == 0.0);
  CHECK(none.largest == 0);
  // Table 0: buckets of 3 and 1; table 1: one bucket of 4. Row 4 is in none.
  const std::vector<Codes> codes = {{0, 3}, {0, 3}, {0, 3}, {2, 3}};
  for (uint32_t row = 0; row < codes.size(); ++row) tables.SetCodes(row, codes[row]);
  tables.BuildAll();
  const BucketOccupancy occupancy = tables.Occupancy();
  CHECK(occupancy.empty_share == doctest::Approx(5.0 / 8));
  CHECK(occupancy.mean == doctest::Approx(8.0 / 3));
  CHECK(occupancy.p99 == 4);
  CHECK(occupancy.largest == 4);
  CHECK(occupancy.skew() == doctest::Approx(1.5));
  CHECK(none.skew() == 0);
}

TEST_CASE("HashTables: the 99th percentile leaves the largest of many buckets out") {
  // 127 buckets of one row and one of two.
  HashTables tables(1, 7, 129);
  for (uint32_t row = 0; row < 129; ++row) {
    tables.SetCodes(row, Codes{static_cast<BucketCode>(row % 128)});
  }
  tables.BuildAll();
  CHECK(tables.Occupancy().p99 == 1);
  CHECK(tables.Occupancy().largest == 2);
}

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

TEST_CASE("CandidateRanker equals a full sort") {
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
    }
  }
}

}  // namespace
}  // namespace dslide
