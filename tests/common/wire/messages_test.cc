// Encoding and decoding of good messages: round trips, the bytes themselves, the compact forms.
#include "common/wire/messages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "common/run/combine.h"
#include "tests/support/hex.h"
#include "tests/support/random_messages.h"
#include "tests/support/results.h"

namespace dslide::messages_test {
namespace {

using testing::FromHex;
using testing::Hex;

// The body of `message` after a trip over the wire.
template <typename T>
T Sent(T body, WirePrecision precision) {
  Message decoded = Ok(Decode(Encode({{}, std::move(body)}, precision)));
  return std::get<T>(decoded.body);
}

Matrix WithNonzeros(uint32_t rows, uint32_t cols, size_t nonzeros) {
  Matrix matrix(rows, cols);
  for (size_t i = 0; i < nonzeros; ++i) matrix.data[i * 7919 % matrix.data.size()] = 1.5f;
  return matrix;
}

TEST_CASE("messages: every kind survives the round trip in both precisions") {
  for (const WirePrecision precision : {WirePrecision::kFp32, WirePrecision::kBf16}) {
    testing::RandomMessages messages(20240117);
    for (int repeat = 0; repeat < 100; ++repeat) {
      for (size_t kind = 0; kind < testing::RandomMessages::kKinds; ++kind) {
        const Message message = messages.Next(kind);
        CAPTURE(BodyName(message.body));
        const Message decoded = Ok(Decode(Encode(message, precision)));
        CHECK(decoded.envelope == message.envelope);
        CHECK(decoded.body == message.body);
      }
    }
  }
}

TEST_CASE("messages: defaults survive the round trip") {
  CHECK(Sent(BatchDone(), WirePrecision::kFp32) == BatchDone());
  CHECK(Sent(TopKRequest(), WirePrecision::kBf16) == TopKRequest());
  CHECK(Sent(ActiveReply(), WirePrecision::kBf16) == ActiveReply());
}

TEST_CASE("messages: weights of samples survive the round trip") {
  LeaseGrant grant;
  grant.batches.resize(2);
  for (LeaseBatch& batch : grant.batches) {
    for (int i = 0; i < 3; ++i) {
      batch.features.EndRow();
      batch.labels.EndRow();
    }
  }
  ActiveQuery query;
  query.hidden = Matrix(3, 2);
  query.label_totals = {1, 1, 1};
  for (int i = 0; i < 3; ++i) query.labels.EndRow();
  for (const WirePrecision precision : {WirePrecision::kFp32, WirePrecision::kInt8}) {
    const auto bytes = [&](const Body& body) { return Encode({{}, body}, precision); };
    const size_t plain_grant = bytes(grant).size(), plain_query = bytes(query).size();
    LeaseGrant weighted_grant = grant;
    weighted_grant.batches[1].weights = {0.0f, 0.1f, 1e6f};
    ActiveQuery weighted_query = query;
    weighted_query.weights = {2.0f, 0.0f, 1.0f};
    CHECK(Decode(bytes(weighted_grant))->body == Body{weighted_grant});
    CHECK(Decode(bytes(weighted_query))->body == Body{weighted_query});
    CHECK(bytes(weighted_grant).size() > plain_grant);
    CHECK(bytes(weighted_query).size() <= plain_query + 32);
  }
}

TEST_CASE("messages: how to rank survives the round trip") {
  for (const Search search : {Search::kExact, Search::kLsh, Search::kScan}) {
    const TopKRequest request{Matrix(1, 2), 3, search, {}, 0.75f};
    CHECK(Sent(request, WirePrecision::kFp32) == request);
  }
}

// A change here is a change of the protocol: older and newer processes then no longer understand
// each other. Append fields instead; the bytes of messages without them stay as they are.
TEST_CASE("messages: golden bytes") {
  struct Golden {
    Message message;
    WirePrecision precision;
    std::string_view hex;
  };
  const Envelope envelope{RunId{0x1122334455667788}, Incarnation{0x99aabbccddeeff00}, 7, 5, 3};
  ActiveQuery query;
  query.batch = {1, 2, 3};
  query.hidden = Matrix(2, 16);
  query.hidden.row(0)[1] = 1.0f;
  query.hidden.row(1)[15] = -2.5f;
  query.labels.ids = {10, 70000};
  query.labels.offsets = {0, 2, 2};
  query.label_totals = {2, 1};
  query.probe_samples = 4;
  EmbedRequest embed{{4, 5, 6}, true, {}};
  embed.features.ids = {1, 2, 3};
  embed.features.values = {0.5f, -1.0f, 2.0f};
  embed.features.offsets = {0, 1, 3};
  const LeaseGrant by_numbers{1, LeaseKind::kTrain, 2, 3, 5, {{4, 1024, {}, {}, 256}}};
  LeaseGrant with_samples{1, LeaseKind::kTrain, 2, 3, 5, {{4, 1024, embed.features, {}, 0}}};
  with_samples.batches[0].labels.ids = {7};
  with_samples.batches[0].labels.offsets = {0, 0, 1};
  ActiveQuery query_int8 = query;
  query_int8.hidden.row(0)[1] = 63.5f;
  query_int8.hidden.row(0)[2] = 1.5f;
  query_int8.hidden.row(1)[15] = -254.0f;
  query_int8.label_totals = {2, 300};
  EmbedRequest embed_int8 = embed;
  embed_int8.features.values = {31.75f, -127.0f, 5.0f};
  const ActiveReply reply{{1, 2}, {3, 4}, {5, 6}, {9, 9}, {}, 7, {}};
  EmbedPush push{{1, 2, 3}, Matrix(2, 2), embed};
  push.gradient.data = {1.0f, 0.0f, -2.0f, 0.5f};
  const GradientReply finished{push.gradient, reply};
  ActiveQuery query_to_finish = query;
  query_to_finish.finish = true;
  Envelope answer = envelope;
  answer.reply_precision = WirePrecision::kInt8;
  answer.service_us = 1234;
  Join server;
  server.role = Role::kServer;
  server.name = "s";
  server.plan_version = 2;
  const CheckpointDone saved{"n", "e", "d", 1, 2, {{"f", 3, 4}}, 5, 6, true};
  const Golden goldens[] = {
      {{envelope, Ack{}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120030001000180020002800080007000c00"
       "12000000000000120300000028000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000400040004000000"},
      {{envelope, ErrorReply{ErrorCode::kStalePlan, "plan 2"}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120030001000180020002800080007000c00"
       "120000000000001a030000002c000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000008000c00070008000800000000000002"
       "0400000006000000706c616e20320000"},
      {{envelope, query},
       WirePrecision::kBf16,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "120000000000000d0300000038000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000000100020000400100014000000"
       "18001c0010000000010000000200000003000000540000002400000004000000"
       "04000000020000000201000010001000000000000700000008000c0010000000"
       "00000001080000000c000000040000000ae6a2040200000002000e0018000800"
       "0c000700100014000e0000000000000102000000100000001000000004000000"
       "04000000803f20c00400000002000080"},
      {{envelope, embed},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "120000000000000b0300000034000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000000000a001800080007001400"
       "0a00000000000001040000000500000006000000140000001000100000000000"
       "0000040008000c00100000000c000000180000001c0000000c0000000000003f"
       "000080bf0000004003000000010201000200000001020000"},
      {{envelope, with_samples},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "12000000000000080300000038000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000000100020001400000004000800"
       "0c00100010000000020000000300000005000000100000000100000000000000"
       "0000000001000000100000000c001c00040008000c0010000c00000004000000"
       "500000002000000000040000000000000000000010000c000000000000000000"
       "0400080010000000080000000c00000001000000070000000200000000010000"
       "10001000000000000000040008000c00100000000c000000180000001c000000"
       "0c0000000000003f000080bf0000004003000000010201000200000001020000"},
      {{envelope, LeaseRequest{}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120030001000180020002800080007000c00"
       "12000000000000070300000028000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000400040004000000"},
      {{envelope, JoinReply{"w", "c", 9}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120032001000180020002800080007000c00"
       "12000000000000020300000030000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000a001400040008000c000a000000"
       "180000000c000000090000000000000001000000630000000100000077000000"},
      {{envelope, JoinReply{"w", "c", 9, 0x0102030405060708}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "12000000000000020300000038000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000000000e001c00040008000c00"
       "000014000e000000200000001400000009000000000000000807060504030201"
       "01000000630000000100000077000000"},
      {{envelope, by_numbers},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "12000000000000080300000038000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000000100020001400000004000800"
       "0c00100010000000020000000300000005000000100000000100000000000000"
       "00000000010000001400000000000e0014000400000000000c0008000e000000"
       "04000000000100000004000000000000"},
      {{envelope, LeaseRequest{true}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120032001000180020002800080007000c00"
       "1200000000000007030000002c000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000600080007000600000000000001"},
      {{envelope, query_int8},
       WirePrecision::kInt8,
       "2000000044534c44000000000000120030001000180020002800080007000c00"
       "120000000000000d0300000034000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000010002000040010001400000018001c00"
       "1000000001000000020000000300000058000000240000000400000004000000"
       "0300000002ac020010001000000000000700000008000c001000000000000002"
       "080000000c000000040000000ae6a204020000000200000010001c0008000c00"
       "0700100014001800100000000000000202000000100000002000000014000000"
       "04000000020000000000003f00000040030000007f0381000400000006000080"},
      {{envelope, embed_int8},
       WirePrecision::kInt8,
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "120000000000000b0300000034000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000000000a001a00080007001400"
       "0a00000000000001040000000500000006000000180000000000120018000000"
       "0000070008000c00100014001200000000000002100000002000000024000000"
       "0c000000030000007f810500020000000000803e0000803f0300000001020100"
       "0200000001020000"},
      {{envelope, reply},
       WirePrecision::kInt8,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "120000000000000e0300000038000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000010001800040008000c001000"
       "0000140010000000340000002400000014000000080000000700000001000000"
       "09000000020000000000a0400000c04002000000000040400000804002000000"
       "0000803f00000040"},
      {{envelope, push},
       WirePrecision::kBf16,
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "12000000000000110300000034000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000000000a001a00040010001400"
       "0a000000010000000200000003000000780000001000000000000a0018000800"
       "070014000a000000000000010400000005000000060000001400000010001400"
       "00000000070008000c00100010000000000000010c0000001400000018000000"
       "06000000003f80bf0040000003000000010201000200000001020e0014000800"
       "0c000700000010000e0000000000000102000000020000000400000008000000"
       "803f000000c0003f"},
      {{envelope, finished},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "12000000000000100300000030000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000008000c000400080008000000"
       "6c0000001400000010001800040008000c001000000014001000000034000000"
       "240000001400000008000000070000000100000009000000020000000000a040"
       "0000c040020000000000404000008040020000000000803f0000004000000e00"
       "100004000800000000000c000e00000002000000020000000400000010000000"
       "0000803f00000000000000c00000003f"},
      {{envelope, query_to_finish},
       WirePrecision::kBf16,
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "120000000000000d030000003c000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000000000012002400080014001800"
       "00001c0020000700120000000000000101000000020000000300000054000000"
       "2400000004000000040000000200000002010000100010000000000007000000"
       "08000c001000000000000001080000000c000000040000000ae6a20402000000"
       "02000e00180008000c000700100014000e000000000000010200000010000000"
       "100000000400000004000000803f20c00400000002000080"},
      {{envelope, CommitSteps{5}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "120000000000001c0300000030000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000000000006000c00040006000000"
       "0500000000000000"},
      {{answer, StepsCommitted{6}},
       WirePrecision::kFp32,
       "2400000044534c4400000000000016003a0014001c0024002c00080006000c00"
       "070010001600000000001d020300000034000000d20400008877665544332211"
       "00ffeeddccbbaa99070000000000000005000000000000000000000000000600"
       "0c000400060000000600000000000000"},
      {{envelope, server},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "1200000000000001030000003c000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000000000012001000040000000800"
       "0000000000000c00120000000b00000008000000020000000100000073000000"},
      {{envelope, Plan{2, {{"s", "a", {0x0102030405060708}}}, {0, 0}, "/c"}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120030001000180020002800080007000c00"
       "12000000000000030300000030000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000c001400040008000c0010000c000000"
       "020000001c0000001000000004000000020000002f6300000200000000000000"
       "010000001000000000000a001400040008000c000a000000180000000c000000"
       "080706050403020101000000610000000100000073000000"},
      {{envelope, CheckpointRequest{"n", "/c/n", 9, {"m"}}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "12000000000000160300000034000000887766554433221100ffeeddccbbaa99"
       "07000000000000000500000000000000000000000c001c000400080010000c00"
       "0c00000034000000240000001000000009000000000000000000000001000000"
       "04000000010000006d000000040000002f632f6e00000000010000006e000000"},
      {{envelope, saved},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "12000000000000170300000040000000887766554433221100ffeeddccbbaa99"
       "07000000000000000500000000000000000000001800380008000c0010001c00"
       "2400000014002c0018000700180000000000000174000000680000005c000000"
       "2400000006000000010000000000000002000000000000000500000000000000"
       "00000000010000001000000000000a0018000400080010000a00000014000000"
       "0300000000000000040000000000000001000000660000000100000064000000"
       "0100000065000000010000006e000000"},
      {{envelope, ErrorReply{ErrorCode::kFenced, "f"}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "120000000000001a0300000030000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000008000c000700080008000000"
       "00000006040000000100000066000000"},
  };
  for (const Golden& golden : goldens) {
    CAPTURE(BodyName(golden.message.body));
    CHECK(Hex(Encode(golden.message, golden.precision)) == golden.hex);
    const Message decoded = Ok(Decode(FromHex(golden.hex)));
    CHECK(decoded.envelope == golden.message.envelope);
    CHECK(decoded.body == golden.message.body);
  }
}

TEST_CASE("messages: a lease by numbers takes a few bytes a batch") {
  LeaseGrant grant{1, LeaseKind::kTrain, 2, 3, 5, {}};
  const size_t empty = Encode({{}, grant}, WirePrecision::kBf16).size();
  for (uint32_t index = 0; index < 64; ++index) {
    grant.batches.push_back({index, 1000 + 256 * index, {}, {}, 256});
  }
  CHECK(Encode({{}, grant}, WirePrecision::kBf16).size() <= empty + 32 + 64 * 32);
  CHECK(Sent(grant, WirePrecision::kBf16) == grant);
}

TEST_CASE("messages: a matrix travels in the smaller form") {
  for (const WirePrecision precision : {WirePrecision::kFp32, WirePrecision::kBf16}) {
    const size_t element = precision == WirePrecision::kFp32 ? 4 : 2;
    const size_t elements = 64 * 128;
    const size_t overhead = 200;
    for (const size_t nonzeros : {size_t{0}, size_t{1}, elements / 2, elements - 1, elements}) {
      CAPTURE(nonzeros);
      const Matrix matrix = WithNonzeros(64, 128, nonzeros);
      const size_t dense = elements * element;
      const size_t sparse = elements / 8 + nonzeros * element;
      const Bytes bytes = Encode({{}, EmbedReply{matrix}}, precision);
      CHECK(bytes.size() <= std::min(dense, sparse) + overhead);
      CHECK(InFloats(Sent(EmbedReply{matrix}, precision).partial) == matrix);
    }
  }
}

TEST_CASE("messages: bitmaps of every length modulo 8") {
  for (uint32_t cols = 1; cols <= 40; ++cols) {
    Matrix matrix(1, cols);
    matrix.data[cols - 1] = 3.0f;
    CHECK(InFloats(Sent(EmbedReply{matrix}, WirePrecision::kBf16).partial) == matrix);
  }
}

TEST_CASE("messages: bf16 rounds to nearest even") {
  Matrix matrix(1, 4);
  matrix.data = {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, 1.0f + 0x1p-8f + 0x1p-20f, -0x1.0p-60f};
  const Matrix sent = InFloats(Sent(EmbedReply{matrix}, WirePrecision::kBf16).partial);
  CHECK(sent.data[0] == 1.0f);            // tie, to even
  CHECK(sent.data[1] == 1.0f + 0x1p-6f);  // tie, to even
  CHECK(sent.data[2] == 1.0f + 0x1p-7f);  // above the tie
  CHECK(sent.data[3] == -0x1.0p-60f);
}

TEST_CASE("messages: -infinity is allowed where nothing was scored") {
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  const ActiveReply reply{{minus_infinity}, {0}, {0}, {0}, {}, 0, {}};
  CHECK(Sent(reply, WirePrecision::kBf16) == reply);
}

TEST_CASE("messages: a buffer need not be aligned") {
  testing::RandomMessages messages(3);
  const Message message = messages.Next(Body(ActiveQuery()).index());
  const Bytes bytes = Encode(message, WirePrecision::kFp32);
  for (size_t shift = 0; shift < 8; ++shift) {
    Bytes shifted(shift, 0);
    shifted.insert(shifted.end(), bytes.begin(), bytes.end());
    const Message decoded = Ok(Decode(std::span(shifted).subspan(shift)));
    CHECK(decoded.body == message.body);
  }
}

}  // namespace
}  // namespace dslide::messages_test
