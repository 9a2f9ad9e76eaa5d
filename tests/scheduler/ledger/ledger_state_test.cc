#include <doctest/doctest.h>

#include <map>
#include <set>
#include <tuple>

#include "common/base/random.h"
#include "common/checkpoint/layout.h"
#include "scheduler/ledger/ledger.h"

namespace dslide::ledger_state_test {
namespace {

constexpr uint32_t kUnits = 2;
constexpr uint32_t kUnitBatches = 70;  // more than a word of DoneSet
constexpr uint32_t kSamples = 10;

// What a run is at one moment, kept as plainly as can be.
struct Moment {
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> counted;  // of all epochs
  uint32_t epoch = 0;
};

// Makes up a run, and keeps its own account of it.
class RandomHistory {
 public:
  explicit RandomHistory(uint64_t seed) : random_(seed) {}

  LedgerEntry Next() {
    const uint64_t draw = random_.Below(3000);
    if (draw < 3) return Restore();
    if (draw < 8) return Checkpoint();
    if (draw < 10) return LedgerPlanned{{++plan, {}, {}, last_checkpoint}};
    if (draw < 11) return LedgerStopped{false};
    if (now.counted.size() == (now.epoch + 1) * kUnits * kUnitBatches) {
      epochs++;
      return LedgerEpochDone{++now.epoch};
    }
    return Count();
  }

  void Check(const LedgerState& state) const {
    CHECK(state.epoch == now.epoch);
    CHECK(state.batches == now.counted.size());
    CHECK(state.samples == kSamples * now.counted.size());
    CHECK(state.last_checkpoint == last_checkpoint);
    CHECK(state.plan.version == plan);
    std::set<std::tuple<uint32_t, uint32_t, uint32_t>> done;
    for (const DoneBatch& b : state.done) done.insert({now.epoch, b.unit, b.index});
    CHECK(done.size() == state.done.size());
    for (uint32_t epoch = 0; epoch < now.epoch + 2; ++epoch) {
      for (uint32_t unit = 0; unit < kUnits; ++unit) {
        for (uint32_t index = 0; index < kUnitBatches; ++index) {
          const bool counts = now.counted.contains({epoch, unit, index});
          REQUIRE(state.Counts({epoch, unit, index}) == counts);
          REQUIRE(done.contains({epoch, unit, index}) == (counts && epoch == now.epoch));
        }
      }
    }
  }

  Moment now;
  std::string last_checkpoint;
  uint32_t plan = 0;
  uint32_t epochs = 0;  // completed, those that were lost again included

 private:
  LedgerEntry Count() {
    // Any batch of the epoch, so that most are repeated towards its end; an old epoch's now and
    // then.
    uint32_t epoch = now.epoch;
    if (epoch > 0 && random_.Below(20) == 0) --epoch;
    const BatchId batch{epoch, static_cast<uint32_t>(random_.Below(kUnits)),
                        static_cast<uint32_t>(random_.Below(kUnitBatches))};
    now.counted.insert({batch.epoch, batch.unit, batch.index});
    return LedgerCounted{batch, kSamples, "worker"};
  }

  LedgerEntry Checkpoint() {
    last_checkpoint = CheckpointName(now.counted.size());
    kept_[last_checkpoint] = now;
    return LedgerCheckpointed{last_checkpoint, now.counted.size()};
  }

  LedgerEntry Restore() {
    if (random_.Below(10) == 0) last_checkpoint.clear();
    now = kept_[last_checkpoint];
    LedgerRestored restored{
        last_checkpoint, now.epoch, now.counted.size(), kSamples * now.counted.size(), {}};
    for (const auto& [epoch, unit, index] : now.counted) {
      if (epoch == now.epoch) restored.done.push_back({unit, index});
    }
    return restored;
  }

  Random random_;
  std::map<std::string, Moment> kept_ = {{"", {}}};
};

TEST_CASE("the ledger's entries add up to what a plain account of the run says") {
  uint32_t epochs = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    RandomHistory history(seed);
    LedgerState state;
    for (int i = 0; i < 20000; ++i) {
      state.Apply(history.Next());
      if (i % 500 == 0) history.Check(state);
    }
    history.Check(state);
    CHECK(state.entries == 20000);
    epochs += history.epochs;
  }
  CHECK(epochs > 20);
}

TEST_CASE("a run is live from its plan on until it stops, and finished if it says so") {
  LedgerState state;
  state.Apply(LedgerOpened{{7}, "c", 10, 3});
  CHECK(state.opened);
  CHECK(state.run == LedgerOpened{{7}, "c", 10, 3});
  CHECK_FALSE(state.live);
  state.Apply(LedgerPlanned{{1, {{"s", "a", {2}}}, {0}, ""}});
  CHECK(state.live);
  CHECK(state.plan.servers.size() == 1);
  state.Apply(LedgerStopped{false});
  CHECK_FALSE(state.live);
  CHECK_FALSE(state.finished);
  state.Apply(LedgerPlanned{{2, {}, {}, ""}});
  state.Apply(LedgerStopped{true});
  CHECK(state.finished);
  state.Apply(LedgerPlanned{{3, {}, {}, ""}});
  CHECK_FALSE(state.finished);
}

TEST_CASE("a batch of an epoch that has not begun does not count") {
  LedgerState state;
  state.Apply(LedgerCounted{{1, 0, 0}, 5, "w"});
  CHECK(state.batches == 0);
  CHECK(state.done.empty());
  CHECK_FALSE(state.Counts({1, 0, 0}));
}

}  // namespace
}  // namespace dslide::ledger_state_test
