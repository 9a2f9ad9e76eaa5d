// Matrices, sparse rows and packed numbers that Decode() must refuse.
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "common/run/combine.h"
#include "common/wire/messages.h"
#include "common/wire/wire_arrays.h"
#include "tests/common/wire/malformed.h"
#include "tests/support/results.h"

namespace dslide::messages_arrays_test {
namespace {

using namespace testing;

std::vector<uint8_t> RawFloats(std::vector<float> values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(float)};
}

// An EmbedReply with this matrix.
Bytes WithMatrix(const std::function<MatrixOffset(Builder&)>& make) {
  Builder b;
  return Finish(b, wire::CreateEmbedReply(b, make(b)));
}

Bytes WithMatrix(uint32_t rows, uint32_t cols, std::vector<uint8_t> data,
                 wire::Precision precision = wire::Precision::Fp32) {
  return WithMatrix([&](Builder& b) {
    return wire::CreateMatrixDirect(b, rows, cols, precision, nullptr, &data);
  });
}

Bytes WithBitmap(uint32_t cols, std::vector<uint8_t> bitmap, std::vector<uint8_t> data) {
  return WithMatrix([&](Builder& b) {
    return wire::CreateMatrixDirect(b, 1, cols, wire::Precision::Fp32, &bitmap, &data);
  });
}

// One in int8, of one row with a bitmap if there is one.
Bytes WithInt8(uint32_t rows, uint32_t cols, std::vector<uint8_t> data, std::vector<float> scales,
               std::vector<uint8_t> bitmap = {}) {
  return WithMatrix([&](Builder& b) {
    return wire::CreateMatrixDirect(b, rows, cols, wire::Precision::Int8,
                                    bitmap.empty() ? nullptr : &bitmap, &data, &scales);
  });
}

// An EmbedRequest with these features.
Bytes WithRows(std::vector<uint32_t> lengths, std::vector<uint32_t> ids,
               std::vector<uint8_t> values, wire::Precision precision = wire::Precision::Fp32,
               std::vector<float> scales = {}) {
  Builder b;
  const wire::BatchId batch;
  const std::vector<uint8_t> packed = PackNumbers(lengths);
  const RowsOffset rows =
      wire::CreateSparseRowsDirect(b, &ids, precision, &values, nullptr, &packed, &scales);
  return Finish(b, wire::CreateEmbedRequest(b, &batch, true, rows));
}

// The same with ids as gaps, and lengths as they are on the wire.
Bytes WithGaps(std::vector<uint8_t> lengths, std::vector<uint8_t> gaps,
               std::vector<uint32_t> ids = {}) {
  Builder b;
  const wire::BatchId batch;
  const RowsOffset rows =
      wire::CreateSparseRowsDirect(b, &ids, wire::Precision::Fp32, nullptr, &gaps, &lengths);
  return Finish(b, wire::CreateEmbedRequest(b, &batch, true, rows));
}

TEST_CASE("malformed: dense matrices") {
  CHECK(Decode(WithMatrix(2, 3, Bytes(24))).ok());
  CHECK(Decode(WithMatrix(2, 3, Bytes(12), wire::Precision::Bf16)).ok());
  ExpectRefused(WithMatrix(2, 3, Bytes(23)), {"EmbedReply", "partial", "2 x 3", "23", "24"});
  ExpectRefused(WithMatrix(2, 3, Bytes(28)), {"EmbedReply", "partial", "28", "24"});
  ExpectRefused(WithMatrix(2, 3, {}), {"EmbedReply", "partial", "0 bytes"});
  ExpectRefused(WithMatrix(2, 3, Bytes(24), wire::Precision::Bf16), {"24", "12"});
  ExpectRefused(WithMatrix(65537, 0, {}), {"partial", "65537"});
  ExpectRefused(WithMatrix(0, 65537, {}), {"partial", "65537"});
  // Products that are 0 modulo 2^32 and 2^64.
  ExpectRefused(WithMatrix(65536, 65536, {}), {"partial"});
  ExpectRefused(WithMatrix(0x80000000, 0x80000000, {}), {"partial", "2147483648"});
  ExpectRefused(WithMatrix(1, 1, Bytes(1), static_cast<wire::Precision>(4)), {"precision 4"});
  ExpectRefused(WithMatrix(1, 2, RawFloats({1, kNan})), {"partial", "finite"});
  ExpectRefused(WithMatrix(1, 2, RawFloats({-kInfinity, 1})), {"partial", "finite"});
  ExpectRefused(WithMatrix(1, 1, {0x80, 0x7f}, wire::Precision::Bf16), {"partial", "finite"});
  Builder b;
  ExpectRefused(Finish(b, wire::CreateEmbedReply(b)), {"EmbedReply", "partial", "missing"});
}

TEST_CASE("malformed: matrices with a bitmap") {
  CHECK(Decode(WithBitmap(10, {0x81, 0x02}, RawFloats({1, 2, 3}))).ok());
  ExpectRefused(WithBitmap(10, {0x81}, RawFloats({1, 2})), {"partial", "bitmap", "1 bytes"});
  ExpectRefused(WithBitmap(10, {0x81, 0x02, 0}, RawFloats({1, 2, 3})), {"bitmap", "3 bytes"});
  ExpectRefused(WithBitmap(10, {0x81, 0x04}, RawFloats({1, 2, 3})), {"bitmap"});
  ExpectRefused(WithBitmap(10, {0x81, 0x02}, RawFloats({1, 2})), {"8 bytes", "12"});
  ExpectRefused(WithBitmap(10, {0x81, 0x02}, RawFloats({1, 2, 3, 4})), {"16 bytes", "12"});
  ExpectRefused(WithBitmap(10, {0x80, 0x00}, RawFloats({kNan})), {"finite"});
}

TEST_CASE("malformed: matrices in int8") {
  const Message good = Ok(Decode(WithInt8(2, 2, {1, 0xff, 0x80, 127}, {0.5f, 2.0f})));
  CHECK(InFloats(std::get<EmbedReply>(good.body).partial).data ==
        std::vector{0.5f, -0.5f, -256.0f, 254.0f});
  CHECK(Decode(WithInt8(1, 10, {1, 2, 3}, {0.5f}, {0x81, 0x02})).ok());
  CHECK(Decode(WithInt8(2, 0, {}, {0, 0})).ok());
  CHECK(Decode(WithInt8(1, 1, {0x80}, {0x1p120f})).ok());
  ExpectRefused(WithInt8(2, 2, Bytes(4), {1}), {"partial.scales", "1", "2"});
  ExpectRefused(WithInt8(2, 2, Bytes(4), {1, 1, 1}), {"partial.scales", "3", "2"});
  ExpectRefused(WithInt8(2, 2, Bytes(4), {}), {"partial.scales", "0", "2"});
  ExpectRefused(WithInt8(2, 2, Bytes(4), {1, kNan}), {"partial.scales", "no scale"});
  ExpectRefused(WithInt8(2, 2, Bytes(4), {kInfinity, 1}), {"partial.scales", "no scale"});
  ExpectRefused(WithInt8(2, 2, Bytes(4), {1, -1}), {"partial.scales", "no scale"});
  ExpectRefused(WithInt8(2, 2, Bytes(4), {1, 0x1.000002p120f}), {"partial.scales", "no scale"});
  ExpectRefused(WithInt8(2, 2, Bytes(3), {1, 1}), {"partial", "3 bytes", "4"});
  ExpectRefused(WithInt8(2, 2, Bytes(8), {1, 1}), {"partial", "8 bytes", "4"});
  ExpectRefused(WithInt8(1, 10, {1, 2}, {1}, {0x81, 0x02}), {"2 bytes", "3"});
  ExpectRefused(WithInt8(1, 10, {1, 2, 3}, {1}, {0x81, 0x04}), {"bitmap"});
  ExpectRefused(WithInt8(1, 10, {1, 2, 3}, {}, {0x81, 0x02}), {"partial.scales", "0", "1"});
  const std::vector<float> scales = {1, 1};
  const std::vector<uint8_t> floats(16);
  ExpectRefused(WithMatrix([&](Builder& b) {
                  return wire::CreateMatrixDirect(b, 2, 2, wire::Precision::Fp32, nullptr, &floats,
                                                  &scales);
                }),
                {"partial.scales", "2", "0"});
}

TEST_CASE("malformed: sparse rows in int8") {
  const auto with = [](std::vector<uint32_t> lengths, std::vector<uint8_t> values,
                       std::vector<float> scales) {
    return WithRows(std::move(lengths), {5, 6, 7}, std::move(values), wire::Precision::Int8,
                    std::move(scales));
  };
  const Message good = Ok(Decode(with({2, 0, 1}, {1, 0xfe, 3}, {0.5f, 0, 2.0f})));
  CHECK(std::get<EmbedRequest>(good.body).features.values == std::vector{0.5f, -1.0f, 6.0f});
  CHECK(Decode(with({2, 0, 1}, {}, {})).ok());
  ExpectRefused(with({2, 0, 1}, {1, 2, 3}, {1, 1}), {"features.scales", "2", "3"});
  ExpectRefused(with({2, 0, 1}, {1, 2, 3}, {}), {"features.scales", "0", "3"});
  ExpectRefused(with({2, 0, 1}, {}, {1, 1, 1}), {"features.scales", "3", "0"});
  ExpectRefused(with({2, 0, 1}, {1, 2, 3}, {1, kNan, 1}), {"features.scales", "no scale"});
  ExpectRefused(with({2, 0, 1}, {1, 2, 3}, {1, 1, -0.5f}), {"features.scales", "no scale"});
  ExpectRefused(with({2, 0, 1}, {1, 2}, {1, 1, 1}), {"features", "2 bytes", "3 ids"});
  ExpectRefused(with({2, 0}, {1, 2, 3}, {1, 1}), {"features.lengths", "2", "3"});
  ExpectRefused(WithRows({1}, {5}, RawFloats({1}), wire::Precision::Fp32, {1}),
                {"features.scales", "1", "0"});
}

TEST_CASE("malformed: sparse rows") {
  CHECK(Decode(WithRows({2, 0, 1}, {5, 6, 7}, RawFloats({1, 2, 3}))).ok());
  CHECK(Decode(WithRows({2, 0, 1}, {5, 6, 7}, {})).ok());
  ExpectRefused(WithRows({2, 0}, {5, 6, 7}, {}), {"EmbedRequest", "features", "2", "3"});
  ExpectRefused(WithRows({2, 2}, {5, 6, 7}, {}), {"features", "4", "3"});
  ExpectRefused(WithRows({0x80000000, 0x80000000}, {}, {}), {"features", "4294967296"});
  ExpectRefused(WithRows({3}, {5, 6, 7}, RawFloats({1, 2})), {"features", "8 bytes", "3 ids"});
  ExpectRefused(WithRows({3}, {5, 6, 7}, Bytes(12), wire::Precision::Bf16), {"12 bytes"});
  ExpectRefused(WithRows({1}, {5}, RawFloats({kNan})), {"features", "finite"});
  ExpectRefused(WithRows({1}, {5}, Bytes(4), static_cast<wire::Precision>(9)), {"precision 9"});
  ExpectRefused(WithRows(std::vector<uint32_t>(65537), {}, {}), {"features", "65537"});
}

TEST_CASE("malformed: gaps that are no ids") {
  const Message good = Ok(Decode(WithGaps({2, 0, 1}, {0x05, 0x80, 0x01, 0x07})));
  CHECK(std::get<EmbedRequest>(good.body).features.ids == std::vector<uint32_t>{5, 133, 7});
  CHECK(Decode(WithGaps({1}, {0xff, 0xff, 0xff, 0xff, 0x0f})).ok());                   // 2^32 - 1
  ExpectRefused(WithGaps({1}, {0x80, 0x80, 0x80, 0x80, 0x10}), {"features", "gaps"});  // 2^32
  ExpectRefused(WithGaps({2}, {0xff, 0xff, 0xff, 0xff, 0x0f, 0x01}), {"features", "gaps"});
  ExpectRefused(WithGaps({1}, {0x80, 0x80, 0x80, 0x80, 0x80, 0x00}), {"features", "gaps"});
  ExpectRefused(WithGaps({1}, {0x05, 0x80}), {"features", "gaps"});  // the second has no end
  ExpectRefused(WithGaps({2}, {0x05}), {"lengths", "2", "1"});
  ExpectRefused(WithGaps({1}, {0x05}, {5}), {"features", "both"});
}

TEST_CASE("malformed: lengths that are no numbers") {
  const Bytes gaps(200, 0x01);
  CHECK(Decode(WithGaps({0xc8, 0x01}, gaps)).ok());
  CHECK(Decode(WithGaps({0xc8, 0x81, 0x00}, gaps)).ok());  // a longer form of the same
  ExpectRefused(WithGaps({0xc8}, gaps), {"lengths"});
  ExpectRefused(WithGaps({0xc8, 0x01, 0x80}, gaps), {"lengths", "no numbers"});
  ExpectRefused(WithGaps({0x80, 0x80, 0x80, 0x80, 0x10}, gaps), {"lengths", "no numbers"});
  ExpectRefused(WithGaps({0xc8, 0x81, 0x80, 0x80, 0x80, 0x00}, gaps), {"lengths", "no numbers"});
  ExpectRefused(WithGaps({0xff, 0xff, 0xff, 0xff, 0x0f}, gaps), {"lengths", "4294967295", "200"});
}

TEST_CASE("malformed: a small buffer that unpacks to gigabytes") {
  Builder b;
  const std::vector<uint32_t> ids(1 << 16);
  const std::vector<uint8_t> lengths = {0x80, 0x80, 0x04};
  const auto rows =
      wire::CreateSparseRowsDirect(b, &ids, wire::Precision::Fp32, nullptr, nullptr, &lengths);
  const auto labels = GoodRows(b, 1);
  const auto batch = wire::CreateLeaseBatch(b, 0, rows, labels);
  const std::vector<flatbuffers::Offset<wire::LeaseBatch>> batches(60000, batch);
  const Bytes bytes =
      Finish(b, wire::CreateLeaseGrantDirect(b, 1, wire::LeaseKind::Train, 0, 0, 0, &batches));
  REQUIRE(bytes.size() < size_t{1} << 20);
  ExpectRefused(bytes, {"LeaseGrant", "unpack"});
}

TEST_CASE("malformed: the largest factor that an honest message unpacks by is allowed") {
  // Nothing but a bit for each of 2^24 elements.
  Matrix zeros(256, 65536);
  const Bytes bytes = Encode({{}, EmbedReply{std::move(zeros)}}, WirePrecision::kInt8);
  CHECK(bytes.size() < (size_t{1} << 21) + 2000);
  CHECK(Decode(bytes).ok());
}

}  // namespace
}  // namespace dslide::messages_arrays_test
