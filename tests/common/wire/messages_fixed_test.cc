// Sums in fixed point on the wire, as synchronous training sends them.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>

#include "common/base/random.h"
#include "common/checkpoint/file_checksum.h"
#include "tests/common/wire/malformed.h"
#include "tests/support/results.h"

namespace dslide::messages_fixed_test {
namespace {

using namespace testing;

constexpr std::array kPrecisions = {WirePrecision::kFp32, WirePrecision::kBf16,
                                    WirePrecision::kInt8};

// One whose elements are not 0 with probability `kept`.
FixedMatrix RandomFixed(uint32_t rows, uint32_t cols, double kept, Random* random) {
  FixedMatrix matrix(rows, cols);
  for (int64_t& x : matrix.data) {
    const auto bits = static_cast<int64_t>(random->Next());
    if (random->Uniform() < kept) x = bits >> (2 + random->Below(40));
  }
  return matrix;
}

ActiveReply RandomStatistics(size_t samples, Random* random) {
  ActiveReply reply;
  reply.max.assign(samples, 1);
  reply.sum_exp.assign(samples, 1);
  reply.target_logit.assign(samples, 0);
  reply.active.assign(samples, 7);
  reply.exp_sums.resize(samples);
  for (ExpSum& sum : reply.exp_sums) {
    for (uint64_t terms = random->Below(4); terms > 0; --terms) {
      sum.Add(static_cast<float>(80 * random->Uniform() - 40), 1);
    }
  }
  return reply;
}

template <typename T>
T Sent(const T& body, WirePrecision precision) {
  const Message received = Ok(Decode(Encode({{}, body}, precision)));
  return std::get<T>(received.body);
}

TEST_CASE("fixed point: sums arrive as they are, in whatever precision the message is") {
  Random random(1);
  for (const WirePrecision precision : kPrecisions) {
    for (const double kept : {0.0, 0.02, 0.5, 0.99, 1.0}) {
      const FixedMatrix matrix = RandomFixed(13, 37, kept, &random);
      CHECK(Sent(EmbedReply{matrix}, precision) == EmbedReply{matrix});
      GradientReply gradient{matrix};
      gradient.active = RandomStatistics(13, &random);
      CHECK(Sent(gradient, precision) == gradient);
    }
    FixedMatrix extremes(1, 3);
    extremes.data = {-kFixedSumLimit, kFixedSumLimit - 1, -1};
    CHECK(Sent(EmbedReply{extremes}, precision) == EmbedReply{extremes});
    CHECK(Sent(EmbedReply{FixedMatrix(0, 5)}, precision) == EmbedReply{FixedMatrix(0, 5)});
    const ActiveReply statistics = RandomStatistics(100, &random);
    CHECK(Sent(statistics, precision) == statistics);
  }
}

TEST_CASE("fixed point: zeros cost a bit") {
  Random random(2);
  const FixedMatrix matrix = RandomFixed(64, 128, 0.25, &random);
  CHECK(Encode({{}, EmbedReply{matrix}}, WirePrecision::kBf16).size() < 64 * 128 * (2.1 + 0.125));
}

TEST_CASE("fixed point: the bytes stay as they are") {
  Random random(3);
  uint64_t checksum = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const FixedMatrix matrix = RandomFixed(5, 9, 0.1 * repeat, &random);
    checksum = ChecksumOf(Encode({{}, EmbedReply{matrix}}, WirePrecision::kBf16), checksum);
    ActiveReply statistics = RandomStatistics(3, &random);
    statistics.exp_sums = {{repeat - 9, random.Next() >> 20, random.Next() >> 20}, {}, {0, 1, 0}};
    checksum = ChecksumOf(Encode({{}, statistics}, WirePrecision::kBf16), checksum);
  }
  CHECK(checksum == 0x1f0791e8f0d2e461u);
}

Bytes WithMatrix(uint32_t cols, std::vector<int64_t> numbers, std::vector<uint8_t> bitmap = {},
                 std::vector<float> scales = {}) {
  Builder b;
  std::vector<uint8_t> data(numbers.size() * sizeof(int64_t));
  if (!data.empty()) std::memcpy(data.data(), numbers.data(), data.size());
  const auto matrix = wire::CreateMatrixDirect(b, 1, cols, wire::Precision::Fixed64,
                                               bitmap.empty() ? nullptr : &bitmap, &data,
                                               scales.empty() ? nullptr : &scales);
  return Finish(b, wire::CreateEmbedReply(b, matrix));
}

TEST_CASE("malformed: sums in fixed point") {
  CHECK(Decode(WithMatrix(2, {1, -1})).ok());
  CHECK(Decode(WithMatrix(9, {5}, {0, 1})).ok());
  ExpectRefused(WithMatrix(2, {1}), {"EmbedReply", "partial", "8 bytes", "16"});
  ExpectRefused(WithMatrix(9, {5}, {0, 2}), {"partial", "bitmap"});
  ExpectRefused(WithMatrix(9, {5}, {1, 1}), {"partial", "8 bytes", "16"});
  ExpectRefused(WithMatrix(1, {1}, {}, {1.0f}), {"partial.scales", "1", "0"});
  for (const int64_t number :
       {kFixedSumLimit, -kFixedSumLimit - 1, std::numeric_limits<int64_t>::min()}) {
    ExpectRefused(WithMatrix(2, {0, number}), {"partial", "2^24"});
    ExpectRefused(WithMatrix(9, {number}, {0, 1}), {"partial", "2^24"});
  }
}

TEST_CASE("malformed: fixed point where floats are wanted") {
  Builder b;
  const std::vector<uint8_t> data(8);
  const wire::BatchId batch;
  const auto matrix = wire::CreateMatrixDirect(b, 1, 1, wire::Precision::Fixed64, nullptr, &data);
  ExpectRefused(Finish(b, wire::CreateEmbedPush(b, &batch, matrix)), {"gradient", "precision 3"});
}

Bytes WithSums(const std::vector<wire::ExpSum>& sums) {
  Builder b;
  const std::vector<float> ones = {1, 1};
  const std::vector<uint32_t> active = {3};
  return Finish(b, wire::CreateActiveReplyDirect(b, &ones, nullptr, &ones, &active, nullptr, 3,
                                                 nullptr, nullptr, &sums));
}

TEST_CASE("malformed: sums of exponentials") {
  const wire::ExpSum good(1, 5, -3), empty(0, 0, ExpSum::kEmpty);
  CHECK(Decode(WithSums({good, empty})).ok());
  CHECK(Decode(WithSums({})).ok());
  ExpectRefused(WithSums({good}), {"ActiveReply", "exp_sums", "1", "2"});
  for (const wire::ExpSum& bad :
       {wire::ExpSum(0, 5, 1), wire::ExpSum(1, 0, ExpSum::kEmpty),
        wire::ExpSum(0, 0, ExpSum::kNotFinite), wire::ExpSum(1, 0, 1 << 21),
        wire::ExpSum(1, 0, -(1 << 21)), wire::ExpSum(uint64_t{1} << 49, 0, 0),
        wire::ExpSum(1, uint64_t{1} << 49, 0)}) {
    ExpectRefused(WithSums({good, bad}), {"exp_sums", "no sum of exponentials"});
  }
}

}  // namespace
}  // namespace dslide::messages_fixed_test
