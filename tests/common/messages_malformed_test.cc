// What Decode() must refuse, built with the generated builders, and damage by chance.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>

#include "common/net/messages.h"
#include "common/net/wire_arrays.h"
#include "protocol_generated.h"
#include "tests/common/random_messages.h"

namespace dslide {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
using MatrixOffset = flatbuffers::Offset<wire::Matrix>;
using RowsOffset = flatbuffers::Offset<wire::SparseRows>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The message of one table; its type decides the union's.
template <typename Table>
Bytes Finish(Builder& b, flatbuffers::Offset<Table> body) {
  wire::FinishMessageBuffer(
      b, wire::CreateMessage(b, 1, 2, 3, 4, 5, wire::BodyTraits<Table>::enum_value, body.Union()));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

void ExpectRefused(const Bytes& bytes, std::initializer_list<std::string_view> words) {
  const Result<Message> decoded = Decode(bytes);
  REQUIRE_FALSE(decoded.ok());
  const std::string& text = decoded.error().message;
  CHECK(text.starts_with("malformed "));
  CHECK(text.find('\n') == std::string::npos);
  for (const std::string_view word : words) {
    CAPTURE(text);
    CHECK(text.find(word) != std::string::npos);
  }
}

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

MatrixOffset GoodMatrix(Builder& b, uint32_t rows) {
  const std::vector<uint8_t> data(rows * 2 * sizeof(float));
  return wire::CreateMatrixDirect(b, rows, 2, wire::Precision::Fp32, nullptr, &data);
}

RowsOffset GoodRows(Builder& b, uint32_t rows) {
  const std::vector<uint8_t> lengths(rows, 1);
  const std::vector<uint32_t> ids(rows, 9);
  return wire::CreateSparseRowsDirect(b, &ids, wire::Precision::Fp32, nullptr, nullptr, &lengths);
}

TEST_CASE("malformed: not one of our buffers") {
  ExpectRefused({}, {"0 bytes"});
  ExpectRefused(Bytes(7), {"7 bytes"});
  ExpectRefused(Bytes(64), {"64 bytes", "DSLD"});
  Bytes bytes = Encode({{}, Ack()}, WirePrecision::kFp32);
  bytes[4] = 'X';  // the file identifier
  ExpectRefused(bytes, {"DSLD"});
}

TEST_CASE("malformed: no body, or one of an unknown kind") {
  Builder none;
  const auto ack = wire::CreateAck(none).Union();
  wire::FinishMessageBuffer(none, wire::CreateMessage(none, 1, 2, 3, 4, 5, wire::Body::NONE, ack));
  ExpectRefused({none.GetBufferPointer(), none.GetBufferPointer() + none.GetSize()}, {"body"});

  Builder unknown;
  const auto other = wire::CreateAck(unknown).Union();
  wire::FinishMessageBuffer(
      unknown, wire::CreateMessage(unknown, 1, 2, 3, 4, 5, static_cast<wire::Body>(200), other));
  ExpectRefused({unknown.GetBufferPointer(), unknown.GetBufferPointer() + unknown.GetSize()},
                {"body type 200"});

  Builder absent;
  const auto start = absent.StartTable();
  absent.AddElement<uint8_t>(wire::Message::VT_BODY_TYPE, static_cast<uint8_t>(wire::Body::Ack), 0);
  wire::FinishMessageBuffer(absent, flatbuffers::Offset<wire::Message>(absent.EndTable(start)));
  ExpectRefused({absent.GetBufferPointer(), absent.GetBufferPointer() + absent.GetSize()},
                {"DSLD"});
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
  ExpectRefused(WithMatrix(1, 1, Bytes(1), static_cast<wire::Precision>(3)), {"precision 3"});
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
  const Result<Message> good = Decode(WithInt8(2, 2, {1, 0xff, 0x80, 127}, {0.5f, 2.0f}));
  REQUIRE(good.ok());
  CHECK(std::get<EmbedReply>(good->body).partial.data == std::vector{0.5f, -0.5f, -256.0f, 254.0f});
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
  const Result<Message> good = Decode(with({2, 0, 1}, {1, 0xfe, 3}, {0.5f, 0, 2.0f}));
  REQUIRE(good.ok());
  CHECK(std::get<EmbedRequest>(good->body).features.values == std::vector{0.5f, -1.0f, 6.0f});
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

TEST_CASE("malformed: ActiveQuery") {
  const auto build = [](uint32_t hidden, uint32_t labels, uint32_t totals, bool batch,
                        uint8_t last_total = 1) {
    Builder b;
    const wire::BatchId id;
    const auto hidden_offset = GoodMatrix(b, hidden);
    const auto labels_offset = GoodRows(b, labels);
    const auto totals_offset = b.CreateVector(std::vector<uint8_t>(totals, last_total));
    return Finish(b, wire::CreateActiveQuery(b, batch ? &id : nullptr, hidden_offset, labels_offset,
                                             0, totals_offset));
  };
  CHECK(Decode(build(3, 3, 3, true)).ok());
  ExpectRefused(build(3, 2, 3, true), {"ActiveQuery", "labels", "2", "3"});
  ExpectRefused(build(3, 3, 4, true), {"ActiveQuery", "totals", "4", "3"});
  ExpectRefused(build(3, 3, 3, true, 0x80), {"ActiveQuery", "totals"});
  ExpectRefused(build(3, 3, 3, false), {"ActiveQuery", "batch", "missing"});
}

TEST_CASE("malformed: ActiveReply") {
  struct Parts {
    std::vector<float> max = {1, 2};
    std::vector<float> sum_exp = {1, 2};
    std::vector<float> target_logit = {1, 2};
    std::vector<uint32_t> active = {1, 2};
    std::vector<float> loss;
    std::vector<uint32_t> probe_ids = {3};
    std::vector<float> probe_logits = {0.5f};
    std::vector<uint8_t> in_set = {1};
    std::vector<uint8_t> in_hash = {0};
    size_t probes = 1;
  };
  const auto build = [](const std::function<void(Parts&)>& damage) {
    Parts p;
    damage(p);
    Builder b;
    std::vector<flatbuffers::Offset<wire::Probe>> probes(
        p.probes, wire::CreateProbeDirect(b, &p.probe_ids, &p.probe_logits, &p.in_set, &p.in_hash));
    return Finish(b, wire::CreateActiveReplyDirect(b, &p.max, &p.sum_exp, &p.target_logit,
                                                   &p.active, &p.loss, 7, &probes));
  };
  CHECK(Decode(build([](Parts&) {})).ok());
  CHECK(Decode(build([](Parts& p) { p.loss = {1, 2}; })).ok());
  CHECK(Decode(build([](Parts& p) { p.max[0] = -kInfinity; })).ok());
  ExpectRefused(build([](Parts& p) { p.max[0] = kNan; }), {"ActiveReply", "max", "NaN"});
  ExpectRefused(build([](Parts& p) { p.max[0] = kInfinity; }), {"ActiveReply", "max"});
  ExpectRefused(build([](Parts& p) { p.sum_exp[1] = kInfinity; }), {"sum_exp", "finite"});
  ExpectRefused(build([](Parts& p) { p.target_logit[1] = kNan; }), {"target_logit", "finite"});
  ExpectRefused(build([](Parts& p) { p.loss = {kNan, 0}; }), {"loss", "finite"});
  ExpectRefused(build([](Parts& p) { p.sum_exp = {1}; }), {"sum_exp", "1", "2"});
  ExpectRefused(build([](Parts& p) { p.target_logit = {1}; }), {"target_logit"});
  ExpectRefused(build([](Parts& p) { p.active = {1, 2, 3}; }), {"active", "3"});
  ExpectRefused(build([](Parts& p) { p.active = {}; }), {"active", "0", "2"});
  const Result<Message> same = Decode(build([](Parts& p) { p.active = {9}; }));
  REQUIRE(same.ok());
  CHECK(std::get<ActiveReply>(same->body).active == std::vector<uint32_t>{9, 9});
  ExpectRefused(build([](Parts& p) { p.loss = {1}; }), {"loss"});
  ExpectRefused(build([](Parts& p) { p.probes = 3; }), {"probes", "3"});
  ExpectRefused(build([](Parts& p) { p.probe_logits = {}; }), {"probes.logits"});
  ExpectRefused(build([](Parts& p) { p.probe_logits = {kNan}; }), {"probes.logits", "finite"});
  ExpectRefused(build([](Parts& p) { p.in_set = {}; }), {"probes.in_set"});
  ExpectRefused(build([](Parts& p) { p.in_hash = {1, 1}; }), {"probes.in_hash"});
}

TEST_CASE("malformed: gaps that are no ids") {
  const Result<Message> good = Decode(WithGaps({2, 0, 1}, {0x05, 0x80, 0x01, 0x07}));
  REQUIRE(good.ok());
  CHECK(std::get<EmbedRequest>(good->body).features.ids == std::vector<uint32_t>{5, 133, 7});
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

TEST_CASE("malformed: batches of a lease with other labels, or with samples and their number") {
  const auto grant = [](uint32_t features, uint32_t labels, uint32_t samples) {
    Builder b;
    const auto feature_rows = GoodRows(b, features);
    const auto batch = wire::CreateLeaseBatch(b, 0, feature_rows, GoodRows(b, labels), 0, samples);
    const std::vector<flatbuffers::Offset<wire::LeaseBatch>> batches = {batch};
    return Finish(b, wire::CreateLeaseGrantDirect(b, 1, wire::LeaseKind::Train, 0, 0, 0, &batches));
  };
  CHECK(Decode(grant(2, 2, 0)).ok());
  CHECK(Decode(grant(0, 0, 2)).ok());
  CHECK(Decode(grant(0, 0, 65536)).ok());
  ExpectRefused(grant(2, 1, 0), {"LeaseGrant", "labels", "1", "2"});
  ExpectRefused(grant(0, 1, 2), {"LeaseGrant", "labels"});
  ExpectRefused(grant(2, 2, 2), {"LeaseGrant", "features"});
  ExpectRefused(grant(0, 0, 65537), {"LeaseGrant", "samples", "65537"});
}

TEST_CASE("malformed: the largest factor that an honest message unpacks by is allowed") {
  // Nothing but a bit for each of 2^24 elements.
  Matrix zeros(256, 65536);
  const Bytes bytes = Encode({{}, EmbedReply{std::move(zeros)}}, WirePrecision::kInt8);
  CHECK(bytes.size() < (size_t{1} << 21) + 2000);
  CHECK(Decode(bytes).ok());
}

TEST_CASE("malformed: GradientPush and EmbedPush") {
  const auto push = [](std::vector<float> normalisers) {
    Builder b;
    const wire::BatchId batch;
    return Finish(b, wire::CreateGradientPushDirect(b, &batch, &normalisers));
  };
  CHECK(Decode(push({1, 2})).ok());
  ExpectRefused(push({1, kNan}), {"GradientPush", "log_normaliser", "finite"});
  ExpectRefused(push({-kInfinity}), {"GradientPush", "log_normaliser", "finite"});
  ExpectRefused(push(std::vector<float>(65537)), {"log_normaliser", "65537"});
  Builder b;
  ExpectRefused(Finish(b, wire::CreateEmbedPush(b, nullptr, GoodMatrix(b, 1))),
                {"EmbedPush", "batch", "missing"});
}

TEST_CASE("malformed: TopKRequest and TopKReply") {
  const auto request = [](uint32_t excluded, wire::Search search) {
    Builder b;
    const auto hidden = GoodMatrix(b, 3);
    return Finish(b, wire::CreateTopKRequest(b, hidden, 5, search, GoodRows(b, excluded)));
  };
  CHECK(Decode(request(0, wire::Search::Exact)).ok());
  CHECK(Decode(request(3, wire::Search::Lsh)).ok());
  ExpectRefused(request(2, wire::Search::Lsh), {"TopKRequest", "excluded", "2", "3"});
  ExpectRefused(request(3, static_cast<wire::Search>(2)), {"search", "2"});

  const auto reply = [](std::vector<uint8_t> lengths, std::vector<uint32_t> ids,
                        std::vector<float> scores) {
    Builder b;
    return Finish(b, wire::CreateTopKReplyDirect(b, &ids, &scores, &lengths));
  };
  CHECK(Decode(reply({1, 0}, {4}, {0.5f})).ok());
  ExpectRefused(reply({1, 1}, {4}, {0.5f}), {"TopKReply", "lengths", "2", "1"});
  ExpectRefused(reply({0x81}, {4}, {0.5f}), {"TopKReply", "lengths"});
  ExpectRefused(reply({1}, {4}, {}), {"TopKReply", "scores"});
  ExpectRefused(reply({1}, {4}, {kNan}), {"TopKReply", "scores", "finite"});
}

TEST_CASE("malformed: leases and progress") {
  const auto grant = [](uint32_t features, uint32_t labels, wire::LeaseKind kind) {
    Builder b;
    const auto features_offset = GoodRows(b, features);
    const auto labels_offset = GoodRows(b, labels);
    const std::vector batches = {wire::CreateLeaseBatch(b, 0, features_offset, labels_offset)};
    return Finish(b, wire::CreateLeaseGrantDirect(b, 1, kind, 0, 0, 0, &batches));
  };
  CHECK(Decode(grant(2, 2, wire::LeaseKind::Train)).ok());
  ExpectRefused(grant(2, 1, wire::LeaseKind::Train), {"LeaseGrant", "labels", "1", "2"});
  ExpectRefused(grant(2, 2, static_cast<wire::LeaseKind>(2)), {"LeaseGrant", "kind", "2"});

  const auto done = [](uint32_t samples, double loss, double recall, uint32_t predicted) {
    Builder b;
    const wire::BatchId batch;
    const std::vector<uint8_t> lengths(predicted);
    const auto predictions = wire::CreateTopKReplyDirect(b, nullptr, nullptr, &lengths);
    return Finish(b, wire::CreateBatchDone(b, 1, &batch, samples, loss, 0, 0, 0, 0, 0, recall, 0, 0,
                                           predictions));
  };
  CHECK(Decode(done(3, 1, 1, 3)).ok());
  CHECK(Decode(done(3, 1, 1, 0)).ok());
  ExpectRefused(done(3, 1, 1, 2), {"BatchDone", "predictions", "2", "3"});
  ExpectRefused(done(3, std::nan(""), 1, 0), {"BatchDone", "loss_sum", "finite"});
  ExpectRefused(done(3, 1, HUGE_VAL, 0), {"BatchDone", "recall_set", "finite"});
  ExpectRefused(done(65537, 1, 1, 0), {"BatchDone", "samples", "65537"});
}

TEST_CASE("malformed: strings and enumerations") {
  const auto join = [](size_t length, wire::Role role) {
    Builder b;
    const auto name = b.CreateString(std::string(length, 'x'));
    return Finish(b, wire::CreateJoin(b, 1, role, name));
  };
  CHECK(Decode(join(1 << 20, wire::Role::Worker)).ok());
  ExpectRefused(join((1 << 20) + 1, wire::Role::Worker), {"Join", "name", "1048577"});
  ExpectRefused(join(1, static_cast<wire::Role>(3)), {"Join", "role", "3"});
  Builder error;
  ExpectRefused(Finish(error, wire::CreateErrorReply(error, static_cast<wire::ErrorCode>(7))),
                {"ErrorReply", "code", "7"});
  Builder heartbeat;
  ExpectRefused(Finish(heartbeat, wire::CreateHeartbeat(heartbeat, 0, 0, 0, 0, 0, kNan)),
                {"Heartbeat", "bucket_empty_share", "finite"});
}

TEST_CASE("malformed: absent strings and vectors are empty ones") {
  Builder b;
  const Result<Message> decoded = Decode(Finish(b, wire::CreatePlan(b, 3)));
  REQUIRE(decoded.ok());
  CHECK(std::get<Plan>(decoded->body) == Plan{3, {}, {}});
}

TEST_CASE("malformed: truncation at every length") {
  testing::RandomMessages messages(11);
  for (size_t kind = 0; kind < testing::RandomMessages::kKinds; ++kind) {
    const Message message = messages.Next(kind);
    CAPTURE(BodyName(message.body));
    const bool int8 = messages.random().Below(2) == 1;
    const Bytes bytes = Encode(message, int8 ? WirePrecision::kInt8 : WirePrecision::kBf16);
    const Result<Message> whole = Decode(bytes);
    REQUIRE(whole.ok());
    for (size_t length = 0; length < bytes.size(); ++length) {
      const Bytes part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
      const Result<Message> decoded = Decode(part);
      // The last bytes may be padding; then nothing is lost.
      const bool harmless = bytes.size() - length < 8 && decoded.ok();
      if (harmless) CHECK(decoded->body == whole->body);
      if (!harmless) CHECK_FALSE(decoded.ok());
    }
  }
}

// The invariants that messages.h promises of what Decode() returns.
struct CheckInvariants {
  bool Good(const Matrix& m) const {
    if (m.data.size() != size_t{m.rows} * m.cols) return false;
    return std::all_of(m.data.begin(), m.data.end(), [](float x) { return std::isfinite(x); });
  }
  bool Good(const std::vector<uint32_t>& offsets, size_t total) const {
    return !offsets.empty() && offsets.front() == 0 && offsets.back() == total &&
           std::is_sorted(offsets.begin(), offsets.end());
  }
  bool Good(const SparseRows& r) const {
    return Good(r.offsets, r.ids.size()) && (r.values.empty() || r.values.size() == r.ids.size()) &&
           std::all_of(r.values.begin(), r.values.end(), [](float x) { return std::isfinite(x); });
  }
  bool operator()(const EmbedRequest& m) const { return Good(m.features); }
  bool operator()(const EmbedReply& m) const { return Good(m.partial); }
  bool operator()(const GradientReply& m) const { return Good(m.partial); }
  bool operator()(const EmbedPush& m) const { return Good(m.gradient); }
  bool operator()(const ActiveQuery& m) const {
    return Good(m.hidden) && Good(m.labels) && m.labels.rows() == m.hidden.rows &&
           m.label_totals.size() == m.hidden.rows;
  }
  bool operator()(const ActiveReply& m) const {
    const size_t rows = m.max.size();
    for (const Probe& p : m.probes) {
      const size_t n = p.ids.size();
      if (p.logits.size() != n || p.in_set.size() != n || p.in_hash.size() != n) return false;
    }
    return m.sum_exp.size() == rows && m.target_logit.size() == rows && m.active.size() == rows &&
           (m.loss.empty() || m.loss.size() == rows) && m.probes.size() <= rows;
  }
  bool operator()(const TopKRequest& m) const {
    const uint32_t excluded = m.excluded.rows();
    return Good(m.hidden) && Good(m.excluded) && (excluded == 0 || excluded == m.hidden.rows);
  }
  bool operator()(const TopKReply& m) const {
    return Good(m.offsets, m.ids.size()) && m.scores.size() == m.ids.size();
  }
  bool operator()(const BatchDone& m) const {
    return (*this)(m.predictions) && std::isfinite(m.loss_sum);
  }
  bool operator()(const LeaseGrant& m) const {
    return std::all_of(m.batches.begin(), m.batches.end(), [&](const LeaseBatch& b) {
      return Good(b.features) && Good(b.labels) && b.features.rows() == b.labels.rows();
    });
  }
  template <typename T>
  bool operator()(const T&) const {
    return true;
  }
};

TEST_CASE("malformed: 50,000 random mutations are refused or leave a consistent message") {
  testing::RandomMessages messages(5);
  Random& random = messages.random();
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 50000; ++i) {
    const Message message = messages.Next(random.Below(testing::RandomMessages::kKinds));
    Bytes bytes = Encode(message, static_cast<WirePrecision>(random.Below(3)));
    for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
      uint8_t& byte = bytes[random.Below(bytes.size())];
      // Extreme bytes more often: they make sizes and offsets go wrong.
      const uint64_t how = random.Below(4);
      byte = static_cast<uint8_t>(how == 0 ? 0 : how == 1 ? 0xff : random.Next());
    }
    const Result<Message> decoded = Decode(bytes);
    (decoded.ok() ? accepted : refused)++;
    if (!decoded.ok()) continue;
    REQUIRE(std::visit(CheckInvariants(), decoded->body));
    // Consistent means: it can be sent on, and arrives as it is.
    const Result<Message> again = Decode(Encode(*decoded, WirePrecision::kFp32));
    REQUIRE(again.ok());
    REQUIRE(again->body == decoded->body);
  }
  CHECK(accepted > 5000);  // both sides are exercised
  CHECK(refused > 5000);
}

}  // namespace
}  // namespace dslide
