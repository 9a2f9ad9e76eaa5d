// The bytes of every kind of message, as checksums: members of other versions read them.
#include <doctest/doctest.h>

#include <array>
#include <string_view>

#include "common/checkpoint/file_checksum.h"
#include "common/wire/messages.h"
#include "tests/support/random_messages.h"

namespace dslide::messages_bytes_test {
namespace {

constexpr size_t kKinds = testing::RandomMessages::kKinds;

// Of 50 random messages of a kind, each in the three precisions.
uint64_t BytesOf(size_t kind) {
  testing::RandomMessages messages(7000 + kind);
  uint64_t checksum = 0;
  for (int repeat = 0; repeat < 50; ++repeat) {
    const Message message = messages.Next(kind);
    for (const WirePrecision precision :
         {WirePrecision::kFp32, WirePrecision::kBf16, WirePrecision::kInt8}) {
      checksum = ChecksumOf(Encode(message, precision), checksum);
    }
  }
  return checksum;
}

TEST_CASE("messages: the bytes of every kind stay as they are") {
  struct Golden {
    std::string_view kind;
    uint64_t checksum;
  };
  constexpr std::array<Golden, kKinds> kGolden = {{
      {"Join", 0x0598e18201483c3d},           {"JoinReply", 0x8eb2d1050e6e84ac},
      {"Plan", 0x86d62563eeec3077},           {"Ready", 0x889a5505d65ba58f},
      {"Heartbeat", 0x1e80fe25040b68f1},      {"HeartbeatReply", 0x7b5159c2a736bf53},
      {"LeaseRequest", 0xff177a07b2ba7560},   {"LeaseGrant", 0xd01a5a0bdbcbb468},
      {"LeaseWait", 0x80f32e2b6fe803df},      {"BatchDone", 0x24e0077469372206},
      {"EmbedRequest", 0xf8bc85480d7e9022},   {"EmbedReply", 0x175e69c7b84bdae3},
      {"ActiveQuery", 0xfdf2f40f246c57ee},    {"ActiveReply", 0x22ce5da86332eb4e},
      {"GradientPush", 0xc731f55571302f33},   {"GradientReply", 0x0447c1f4e2c07202},
      {"EmbedPush", 0x2c59a66c83ec1704},      {"Ack", 0x7928a36d7d89e413},
      {"DropBatches", 0xd6126a747339f11c},    {"TopKRequest", 0x659914e87d8bdefd},
      {"TopKReply", 0x024c7d9d4b681837},      {"CheckpointRequest", 0x724735c6a8941e87},
      {"CheckpointDone", 0xabc65d4cedb9b4e0}, {"CheckpointNow", 0xc09eb6408d879d01},
      {"Shutdown", 0xd821b26a093c242c},       {"ErrorReply", 0x3a7b976c567535fe},
      {"Leave", 0x088a2e8449e43a70},          {"CommitSteps", 0x5822428a8e3dfaa3},
      {"StepsCommitted", 0x3cb892ff1b86af45}, {"MoveSlots", 0x8baf6f3dcbb8df51},
      {"MoveReady", 0x433dbe155cbb74de},      {"SlotPull", 0x11a6554bf3f290c9},
      {"SlotRows", 0x8121a55c05cbfb92},       {"DrainServer", 0xd6a78ee819dbfd77},
      {"StatusRequest", 0xcd234e158c3e8404},  {"StatusReply", 0x35f4134201534f31},
      {"RebuildTables", 0x7c44bca5e4a33f32},  {"AccessList", 0xbdf0b7d890638b44},
      {"AuditReport", 0x5789846e5eef0dab},
  }};
  for (size_t kind = 0; kind < kKinds; ++kind) {
    CAPTURE(BodyName(kind));
    CHECK(BodyName(kind) == kGolden[kind].kind);
    CHECK(BytesOf(kind) == kGolden[kind].checksum);
  }
}

}  // namespace
}  // namespace dslide::messages_bytes_test
