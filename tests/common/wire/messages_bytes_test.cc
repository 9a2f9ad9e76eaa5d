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
uint64_t BytesOf(size_t kind, bool dense = false) {
  testing::RandomMessages messages(7000 + kind, dense);
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
      {"Join", 0x308494cbf174e9c9},           {"JoinReply", 0xd17b7efdd2f0b104},
      {"Plan", 0x6829ea8e163417a5},           {"Ready", 0xaeef02d00f5c0b9b},
      {"Heartbeat", 0xc0eab97d1f69e735},      {"HeartbeatReply", 0xd5e9325cdb062ddf},
      {"LeaseRequest", 0xb917b2b3b0d24b0f},   {"LeaseGrant", 0x6155db555ef3b0de},
      {"LeaseWait", 0xe322a20f3241531c},      {"BatchDone", 0x209dd2a31b0c914c},
      {"EmbedRequest", 0xd81507cf71d7dce8},   {"EmbedReply", 0x8a7b133ca9011f40},
      {"ActiveQuery", 0xeb29052d3b07acbb},    {"ActiveReply", 0x9ec02679e501669c},
      {"GradientPush", 0xea27c52131566be4},   {"GradientReply", 0x6d0f027b0897daeb},
      {"EmbedPush", 0x26478569f8179b90},      {"Ack", 0x4ad8c4f262dc2c00},
      {"DropBatches", 0x651b87fe71f7362c},    {"TopKRequest", 0x2259362a1a6e7fae},
      {"TopKReply", 0x1d1ad31c1508cac9},      {"CheckpointRequest", 0x90ab7372ad0da658},
      {"CheckpointDone", 0xd693e69c385027d7}, {"CheckpointNow", 0x2f3385ac541bde85},
      {"Shutdown", 0x31464322173d2d26},       {"ErrorReply", 0xfa56a987addd669e},
      {"Leave", 0x0670db52e5e90c1e},          {"CommitSteps", 0x8ef5f54b0a32597f},
      {"StepsCommitted", 0xe3f02c0a3635ca86}, {"MoveSlots", 0x4abfb10f004e4e21},
      {"MoveReady", 0xbcd6f19e727ef0ff},      {"SlotPull", 0xf89225aedba4a68e},
      {"SlotRows", 0x9de9751a5b075fee},       {"DrainServer", 0x8dd9030935f22ed4},
      {"StatusRequest", 0xe128001593dcb089},  {"StatusReply", 0x3ca63b0f41648632},
      {"RebuildTables", 0xa3693d500ff6d247},  {"AccessList", 0x2e6894fb444bc0dc},
      {"AuditReport", 0x00fce2ca6768029f},    {"Offence", 0xb3c40e754f648cf3},
  }};
  for (size_t kind = 0; kind < kKinds; ++kind) {
    CAPTURE(BodyName(kind));
    CHECK(BodyName(kind) == kGolden[kind].kind);
    CHECK(BytesOf(kind) == kGolden[kind].checksum);
  }
}

// Of models with dense layers.
TEST_CASE("messages: the bytes of rows of dense layers stay as they are") {
  CHECK(BytesOf(Body(EmbedRequest()).index(), true) == 0x96a710af8945d269);
  CHECK(BytesOf(Body(EmbedReply()).index(), true) == 0xae47d28438c19409);
  CHECK(BytesOf(Body(EmbedPush()).index(), true) == 0x7d56e65719e10821);
}

}  // namespace
}  // namespace dslide::messages_bytes_test
