// Hash tables that follow the slots of their layer.
#include <doctest/doctest.h>

#include <set>

#include "tests/server/model/lsh/table_layer.h"

namespace dslide::live_tables_slots_test {
namespace {

using Codes = std::vector<BucketCode>;

// A layer that owns the first slots, its tables, and the whole model to copy rows from.
class MovingSlots {
 public:
  MovingSlots(uint32_t ids, uint32_t owned, const HashConfig& config)
      : config_(config),
        whole_(MakeLayer(ids)),
        source_(Fresh(whole_, config)),
        layer_(MakeLayer(ids, Precision::kFp32, owned)),
        tables_(Tables(layer_, config)) {
    tables_.CatchUp();
  }

  void Reserve(SlotId slot) {
    layer_.Reserve(slot);
    tables_.FollowMap();
  }
  // All rows of the slot, with their codes or without.
  void Copy(SlotId slot, bool codes, bool changed = false) {
    std::vector<uint8_t> bytes(layer_.RowBytes());
    for (uint32_t row = 0; row < layer_.map().SlotSize(slot); ++row) {
      const uint32_t from = whole_.map().LocalRow(slot, row), to = layer_.map().LocalRow(slot, row);
      whole_.StoreRow(from, bytes.data());
      layer_.LoadRow(to, bytes.data());
      tables_.TakeRow(to, codes ? source_.tables().Codes(from) : Codes(), changed);
    }
  }
  void Attach(SlotId slot) {
    layer_.Attach(slot);
    tables_.FollowMap();
  }
  void Detach(SlotId slot) {
    layer_.Detach(slot);
    tables_.FollowMap();
  }
  void Release(SlotId slot) {
    layer_.Release(slot);
    tables_.FollowMap();
  }
  void Advance(uint32_t batches) {
    for (uint32_t batch = 0; batch < batches; ++batch) tables_.Advance();
  }

  Layer& layer() { return layer_; }
  LiveTables& tables() { return tables_; }
  bool AreFresh() const { return SameBuckets(tables_, Fresh(layer_, config_)); }
  // Rows of a slot that are in their bucket of the first table.
  uint32_t Found(SlotId slot) const {
    uint32_t found = 0;
    for (uint32_t code = 0; code < tables_.functions().buckets(); ++code) {
      for (const uint32_t row : tables_.tables().Bucket(0, static_cast<BucketCode>(code))) {
        found += layer_.map().SlotOf(row) == slot;
      }
    }
    return found;
  }

 private:
  HashConfig config_;
  Layer whole_;
  LiveTables source_;
  Layer layer_;
  LiveTables tables_;
};

TEST_CASE("live tables: a slot that comes with its codes is found when it is attached") {
  MovingSlots moving(kSmall, 3, Hashes(6));
  const SlotId slot{5};
  moving.Reserve(slot);
  moving.Copy(slot, true);
  moving.Advance(moving.tables().lag_batches());
  CHECK(moving.Found(slot) == moving.layer().map().SlotSize(slot));
  moving.Attach(slot);
  CHECK(moving.AreFresh());
}

TEST_CASE("live tables: rows that came changed are hashed once they are attached") {
  MovingSlots moving(kSmall, 3, Hashes(6));
  const SlotId slot{5};
  moving.Reserve(slot);
  moving.Copy(slot, true, true);
  Random random(3);
  for (uint32_t row = 0; row < 50; ++row) {
    Change(&moving.layer(), moving.layer().map().LocalRow(slot, row), &random);
  }
  moving.Attach(slot);
  moving.Advance(moving.tables().lag_batches());
  CHECK(moving.AreFresh());
}

TEST_CASE("live tables: a slot that left is in no bucket, and has its codes until its release") {
  MovingSlots moving(kSmall, kSlots, Hashes(6));
  const SlotId slot{2};
  const uint32_t row = moving.layer().map().LocalRow(slot, 7);
  const Codes codes = moving.tables().tables().Codes(row);
  moving.tables().Touch(row);
  moving.Detach(slot);
  moving.tables().CatchUp();
  CHECK(moving.Found(slot) == 0);
  CHECK(moving.AreFresh());
  CHECK(moving.tables().tables().Codes(row) == codes);
  CHECK(moving.tables().IsChanged(row));  // it is not hashed again
  moving.Advance(moving.tables().lag_batches());
  CHECK(moving.Found(slot) == 0);
  moving.Release(slot);
  CHECK(moving.tables().tables().Codes(row) == Codes(6, kNoCode));
  CHECK_FALSE(moving.tables().IsChanged(row));
  // The next one in its place has nothing of it.
  moving.Reserve(slot);
  moving.Attach(slot);
  moving.Advance(moving.tables().lag_batches());
  CHECK(moving.Found(slot) == moving.layer().map().SlotSize(slot));
  CHECK(moving.AreFresh());
}

TEST_CASE(
    "live tables: whatever slots did, buckets are those of fresh tables lag_batches() later") {
  for (const uint32_t ids : {kSmall, 60'000u}) {
    Random random(8);
    MovingSlots moving(ids, 0, Hashes(5));
    const SlotMap& map = moving.layer().map();
    for (int step = 0; step < 40; ++step) {
      const SlotId slot{static_cast<uint32_t>(random.Below(kSlots))};
      if (!map.HasRegion(slot)) {
        moving.Reserve(slot);
        moving.Copy(slot, random.Below(2) == 0);
      } else if (map.Owns(slot)) {
        moving.Detach(slot);
      } else if (random.Below(3) == 0) {
        moving.Release(slot);
      } else {
        moving.Attach(slot);
      }
      moving.Advance(static_cast<uint32_t>(random.Below(12)));
      if (step % 8 != 7) continue;
      for (uint32_t s = 0; s < kSlots; ++s) {
        if (map.HasRegion({s}) && !map.Owns({s})) moving.Release({s});
      }
      moving.Advance(moving.tables().lag_batches());
      CHECK(moving.AreFresh());
    }
  }
}

TEST_CASE("live tables: their identity is that of the hash functions") {
  const Layer layer = MakeLayer(kSmall);
  std::set<uint64_t> identities;
  HashConfig config = Hashes(5);
  const auto add = [&](uint64_t seed) {
    identities.insert(LiveTables(config, seed, layer, BestKernels()).identity());
  };
  add(1);
  CHECK(LiveTables(config, 1, MakeLayer(kSmall, Precision::kFp32, 2), BestKernels()).identity() ==
        *identities.begin());
  add(2);
  config.k = 1;
  add(1);
  config.tables = 6;
  add(1);
  config.bin = 4;
  add(1);
  CHECK(identities.size() == 5);
}

}  // namespace
}  // namespace dslide::live_tables_slots_test
