// Encoding and decoding of good messages: round trips, the bytes themselves, the compact forms.
#include "common/net/messages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "tests/common/random_messages.h"

namespace dslide {
namespace {

std::string Hex(const Bytes& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

Bytes FromHex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  }
  return bytes;
}

// The body of `message` after a trip over the wire.
template <typename T>
T Sent(T body, WirePrecision precision) {
  Result<Message> decoded = Decode(Encode({{}, std::move(body)}, precision));
  REQUIRE_MESSAGE(decoded.ok(), decoded.error().message);
  return std::get<T>(decoded->body);
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
        const Result<Message> decoded = Decode(Encode(message, precision));
        REQUIRE_MESSAGE(decoded.ok(), decoded.error().message);
        CHECK(decoded->envelope == message.envelope);
        CHECK(decoded->body == message.body);
      }
    }
  }
}

TEST_CASE("messages: defaults survive the round trip") {
  CHECK(Sent(BatchDone(), WirePrecision::kFp32) == BatchDone());
  CHECK(Sent(TopKRequest(), WirePrecision::kBf16) == TopKRequest());
  CHECK(Sent(ActiveReply(), WirePrecision::kBf16) == ActiveReply());
}

TEST_CASE("messages: body names are the schema's") {
  CHECK(BodyName(Join()) == "Join");
  CHECK(BodyName(ActiveQuery()) == "ActiveQuery");
  CHECK(BodyName(ErrorReply()) == "ErrorReply");
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
       "2000000044534c44000000000000120032001000180020002800080007000c00"
       "120000000000000d0300000034000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000e00200004001000140018001c00"
       "0e00000001000000020000000300000060000000280000000800000004000000"
       "02000000020000000100000000000e00100008000000070000000c000e000000"
       "000000011000000004000000040000000ae6a204020000000200000000000000"
       "00000e00180008000c000700100014000e000000000000010200000010000000"
       "100000000400000004000000803f20c00400000002000080"},
      {{envelope, embed},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120032001000180020002800080007000c00"
       "120000000000000b0300000030000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000a001a000800070014000a000000"
       "000000010400000005000000060000001400000000000e001000040000000000"
       "08000c000e0000002400000008000000140000000c0000000000003f000080bf"
       "000000400300000001020100020000000100000002000000"},
      {{envelope, with_samples},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "12000000000000080300000038000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000000100020001400000004000800"
       "0c00100010000000020000000300000005000000100000000100000000000000"
       "0000000001000000100000000c001e00040008000c0010000c00000004000000"
       "540000002000000000040000000000000000000000000e000c00040000000000"
       "000008000e000000100000000400000001000000070000000200000000000000"
       "0100000000000e00100004000000000008000c000e0000002400000008000000"
       "140000000c0000000000003f000080bf00000040030000000102010002000000"
       "0100000002000000"},
      {{envelope, LeaseRequest{}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120030001000180020002800080007000c00"
       "12000000000000070300000028000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000400040004000000"},
      {{envelope, JoinReply{"w", "c", 9, ""}},
       WirePrecision::kFp32,
       "2000000044534c44000000000000120032001000180020002800080007000c00"
       "12000000000000020300000030000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000a001400040008000c000a000000"
       "180000000c000000090000000000000001000000630000000100000077000000"},
      {{envelope, JoinReply{"w", "c", 9, "", 0x0102030405060708}},
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
  };
  for (const Golden& golden : goldens) {
    CAPTURE(BodyName(golden.message.body));
    CHECK(Hex(Encode(golden.message, golden.precision)) == golden.hex);
    const Result<Message> decoded = Decode(FromHex(golden.hex));
    REQUIRE(decoded.ok());
    CHECK(decoded->envelope == golden.message.envelope);
    CHECK(decoded->body == golden.message.body);
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
      CHECK(Sent(EmbedReply{matrix}, precision).partial == matrix);
    }
  }
}

TEST_CASE("messages: bitmaps of every length modulo 8") {
  for (uint32_t cols = 1; cols <= 40; ++cols) {
    Matrix matrix(1, cols);
    matrix.data[cols - 1] = 3.0f;
    CHECK(Sent(EmbedReply{matrix}, WirePrecision::kBf16).partial == matrix);
  }
}

TEST_CASE("messages: bf16 rounds to nearest even") {
  Matrix matrix(1, 4);
  matrix.data = {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, 1.0f + 0x1p-8f + 0x1p-20f, -0x1.0p-60f};
  const Matrix sent = Sent(EmbedReply{matrix}, WirePrecision::kBf16).partial;
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
    const Result<Message> decoded = Decode(std::span(shifted).subspan(shift));
    REQUIRE(decoded.ok());
    CHECK(decoded->body == message.body);
  }
}

}  // namespace
}  // namespace dslide
