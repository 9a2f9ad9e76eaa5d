// Messages by which slots move and load is told: round trips, their bytes, and what is refused.
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "common/wire/messages.h"
#include "tests/common/wire/malformed.h"
#include "tests/support/hex.h"
#include "tests/support/results.h"

namespace dslide::messages_moves_test {
namespace {

using namespace testing;

LoadReport TwoSlots() {
  return {1000,   40,     {3, 259},       {0, 1},          {5, 6}, {7, 8},
          {9, 1}, {2, 3}, {100.5f, 0.0f}, {1ull << 40, 2}, {0.5f}};
}

SlotRows TwoRows() {
  return {3, 1, 1, {4, 0}, {3, 3}, {1, 2, 3}, 9, ~0ull, true, {~0ull}, {5, 0}, 1ull << 40};
}

TEST_CASE("moves: empty loads and empty commits survive the round trip") {
  Heartbeat beat;
  beat.load = LoadReport{};
  SlotRows none_committed = TwoRows();
  none_committed.committed = 0;
  for (const Body& body : {Body(beat), Body(SlotRows{}), Body(none_committed)}) {
    CHECK(Ok(Decode(Encode({{}, body}, WirePrecision::kInt8))).body == body);
  }
}

TEST_CASE("moves: golden bytes") {
  const Envelope envelope{RunId{0x1122334455667788}, Incarnation{0x99aabbccddeeff00}, 7, 5, 3};
  Heartbeat beat;
  beat.load = TwoSlots();
  beat.memory_used_bytes = 7;
  beat.hash_round = 1;
  struct Golden {
    Body body;
    std::string_view hex;
  };
  const Golden goldens[] = {
      {MoveSlots{1, {3, 259}, {0, 2}, 1000},
       "2000000044534c44000000000000120030001000180020002800080007000c00"
       "120000000000001e0300000030000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000c0020000c000400080014000c000000"
       "24000000180000000100000000000000e8030000000000000000000002000000"
       "00000200020000000300000003010000"},
      {MoveReady{1, 2, 3},
       "2000000044534c44000000000000120032001000180020002800080007000c00"
       "120000000000001f0300000030000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000a001c0004000c0014000a000000"
       "010000000000000002000000000000000300000000000000"},
      {SlotPull{.slot = 3, .part = 1, .cold_only = true, .max_bytes = 65536, .release = true},
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "12000000000000200300000038000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000000000e00140008000c000600"
       "100007000e00000000000101030000000100000000000100"},
      {TwoRows(),
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "12000000000000210300000048000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000000001e00400008000c001000"
       "140018001c0020002c00060024002800070034001e0000000000010103000000"
       "0100000001000000640000005400000048000000090000003400000018000000"
       "ffffffffffffffff000000000001000000000000020000000500000000000000"
       "00000000000000000000000001000000ffffffffffffffff0300000001020300"
       "020000000300000003000000020000000400000000000000"},
      {beat,
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "12000000000000050300000050000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000000280016000000000000000000"
       "0000000000000000000000000000000000000000000004000c00080028000000"
       "2c00000001000000070000000000000000001a003000040008000c0010001400"
       "18001c002000240028002c001a000000e8030000280000008400000078000000"
       "6800000058000000480000003800000028000000100000000400000001000000"
       "0000003f0200000000000000000100000200000000000000020000000000c942"
       "0000000002000000000000400000404002000000090000000100000002000000"
       "0700000008000000020000000500000006000000020000000000010002000000"
       "0300000003010000"},
      {HeartbeatReply{4},
       "2000000044534c44000000000000120032001000180020002800080007000c00"
       "1200000000000006030000002c000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000600080004000600000004000000"},
      {HeartbeatReply{4, 9},
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "12000000000000060300000030000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000008000c000400080008000000"
       "0400000009000000"},
      {Ready{3, 4, 5, 6, 7},
       "2000000044534c44000000000000120036001000180020002800080007000c00"
       "12000000000000040300000038000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000000000e00240004000c001400"
       "1c0008000e000000030000000700000004000000000000000500000000000000"
       "0600000000000000"},
      {DrainServer{"s"},
       "2000000044534c44000000000000120032001000180020002800080007000c00"
       "1200000000000022030000002c000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000600080004000600000004000000"
       "0100000073000000"},
      {StatusRequest{},
       "2000000044534c44000000000000120030001000180020002800080007000c00"
       "12000000000000230300000028000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000400040004000000"},
      {StatusReply{"{}"},
       "2000000044534c44000000000000120032001000180020002800080007000c00"
       "1200000000000024030000002c000000887766554433221100ffeeddccbbaa99"
       "0700000000000000050000000000000000000600080004000600000004000000"
       "020000007b7d0000"},
      {RebuildTables{2, 5},
       "2000000044534c44000000000000120034001000180020002800080007000c00"
       "12000000000000250300000030000000887766554433221100ffeeddccbbaa99"
       "070000000000000005000000000000000000000008000c000400080008000000"
       "0200000005000000"},
  };
  for (const Golden& golden : goldens) {
    CAPTURE(BodyName(golden.body));
    const Message message{envelope, golden.body};
    CHECK(Hex(Encode(message, WirePrecision::kBf16)) == golden.hex);
    const Message decoded = Ok(Decode(FromHex(golden.hex)));
    CHECK(decoded == message);
  }
}

TEST_CASE("malformed: MoveSlots") {
  const auto move = [](std::vector<uint32_t> slots, std::vector<uint16_t> from) {
    Builder b;
    return Finish(b, wire::CreateMoveSlotsDirect(b, 1, &slots, &from));
  };
  CHECK(Decode(move({}, {})).ok());
  CHECK(Decode(move({1, 2}, {0, 1})).ok());
  ExpectRefused(move({1, 2}, {0}), {"MoveSlots", "from", "1", "2"});
  ExpectRefused(move({1}, {0, 1}), {"MoveSlots", "from", "2", "1"});
  ExpectRefused(move({}, {0}), {"MoveSlots", "from", "1", "0"});
}

TEST_CASE("malformed: SlotRows") {
  struct Parts {
    std::vector<uint32_t> rows = {4, 0, 2};
    std::vector<uint32_t> ends = {2, 2, 5};
    std::vector<uint8_t> bytes = {1, 2, 3, 4, 5};
    uint32_t input_rows = 1;
  };
  const auto build = [](const std::function<void(Parts&)>& damage) {
    Parts p;
    damage(p);
    Builder b;
    return Finish(b, wire::CreateSlotRowsDirect(b, 3, 1, p.input_rows, &p.rows, &p.ends, &p.bytes));
  };
  CHECK(Decode(build([](Parts&) {})).ok());
  CHECK(Decode(build([](Parts& p) { p.input_rows = 3; })).ok());
  CHECK(Decode(build([](Parts& p) { p = {{}, {}, {}, 0}; })).ok());
  ExpectRefused(build([](Parts& p) { p.input_rows = 4; }), {"SlotRows", "input_rows", "4", "3"});
  ExpectRefused(build([](Parts& p) { p.ends = {2, 5}; }), {"SlotRows", "ends", "2", "3"});
  ExpectRefused(build([](Parts& p) { p.rows = {4, 0}; }), {"SlotRows", "ends", "3", "2"});
  ExpectRefused(build([](Parts& p) { p.ends = {3, 2, 5}; }), {"SlotRows", "ends", "ascend"});
  ExpectRefused(build([](Parts& p) { p.ends = {2, 0xffffffff, 5}; }), {"ends", "ascend"});
  ExpectRefused(build([](Parts& p) { p.ends = {2, 2, 6}; }), {"SlotRows", "bytes", "5", "6"});
  ExpectRefused(build([](Parts& p) { p.ends = {2, 2, 4}; }), {"SlotRows", "bytes", "5", "4"});
  ExpectRefused(build([](Parts& p) { p.bytes = {}; }), {"SlotRows", "bytes", "0", "5"});
  ExpectRefused(build([](Parts& p) { p = {{}, {}, {1}, 0}; }), {"SlotRows", "bytes", "1", "0"});
}

TEST_CASE("malformed: LoadReport") {
  const auto build = [](const std::function<void(LoadReport&)>& damage) {
    LoadReport p = TwoSlots();
    damage(p);
    Builder b;
    const auto load = wire::CreateLoadReportDirect(b, p.interval_ms, p.batches, &p.slots,
                                                   &p.executor, &p.retrieved, &p.used, &p.updated,
                                                   &p.work, &p.service_us, &p.bytes, &p.busy);
    wire::HeartbeatBuilder beat(b);
    beat.add_load(load);
    return Finish(b, beat.Finish());
  };
  CHECK(Decode(build([](LoadReport&) {})).ok());
  CHECK(Decode(build([](LoadReport& p) { p = {}; })).ok());
  CHECK(Decode(build([](LoadReport& p) { p.busy = {}; })).ok());
  ExpectRefused(build([](LoadReport& p) { p.slots = {3}; }), {"Heartbeat", "load.executor", "1"});
  ExpectRefused(build([](LoadReport& p) { p.executor = {1}; }), {"load.executor", "1", "2"});
  ExpectRefused(build([](LoadReport& p) { p.retrieved = {}; }), {"load.retrieved", "0", "2"});
  ExpectRefused(build([](LoadReport& p) { p.used = {1}; }), {"load.used", "1", "2"});
  ExpectRefused(build([](LoadReport& p) { p.updated = {1, 2, 3}; }), {"load.updated", "3", "2"});
  ExpectRefused(build([](LoadReport& p) { p.work = {1}; }), {"load.work", "1", "2"});
  ExpectRefused(build([](LoadReport& p) { p.work[1] = kNan; }), {"load.work", "finite"});
  ExpectRefused(build([](LoadReport& p) { p.service_us = {1}; }), {"load.service_us", "1", "2"});
  ExpectRefused(build([](LoadReport& p) { p.service_us[0] = kInfinity; }),
                {"load.service_us", "finite"});
  ExpectRefused(build([](LoadReport& p) { p.bytes = {1}; }), {"load.bytes", "1", "2"});
  ExpectRefused(build([](LoadReport& p) { p.busy[0] = -kInfinity; }), {"load.busy", "finite"});
}

}  // namespace
}  // namespace dslide::messages_moves_test
