// Slots that move between executors while they train: nothing is lost, and no batch counts twice.
#include <fmt/core.h>

#include <algorithm>

#include "tests/server/support/slot_move.h"
#include "tests/server/support/training_run.h"

namespace dslide::executor_slots_test {
namespace {

using Kind = SlotJob::Kind;

const RunKind kPlain = {OptimizerKind::kAdam, false, ActiveSet::kMass, false};
const RunKind kHashed = {OptimizerKind::kAdaGrad, false, ActiveSet::kLsh, false};

std::vector<uint8_t> StoredRow(Layer* layer, SlotId slot, uint32_t row) {
  std::vector<uint8_t> bytes(layer->RowBytes());
  layer->StoreRow(layer->map().LocalRow(slot, row), bytes.data());
  return bytes;
}

// Two executors that both have a region for the slot have the same in it.
void CheckSameRows(Executor* a, Executor* b, SlotId slot) {
  const auto check = [&](Layer* of_a, Layer* of_b) {
    bool same = true;
    for (uint32_t row = 0; row < of_a->map().SlotSize(slot); ++row) {
      same = same && StoredRow(of_a, slot, row) == StoredRow(of_b, slot, row);
    }
    CHECK(same);
  };
  check(&a->input().layer(), &b->input().layer());
  check(&a->output().layer(), &b->output().layer());
  const NeuronIndex* index_a = a->output().index();
  const NeuronIndex* index_b = b->output().index();
  if (index_a == nullptr) return;
  const SlotMap& map_a = a->output().layer().map();
  const SlotMap& map_b = b->output().layer().map();
  for (uint32_t row = 0; row < map_a.SlotSize(slot); ++row) {
    const uint32_t in_a = map_a.LocalRow(slot, row), in_b = map_b.LocalRow(slot, row);
    // A row that was copied before it was hashed again is hashed again where it came to.
    const bool same =
        index_a->tables().tables().Codes(in_a) == index_b->tables().tables().Codes(in_b) &&
        index_a->tables().IsChanged(in_a) == index_b->tables().IsChanged(in_b);
    REQUIRE((same || index_b->tables().IsChanged(in_b)));
  }
}

std::array<std::vector<uint64_t>, kParts> TakenBy(const Executor& executor, SlotId slot) {
  for (const AppliedBatches::Group& group : executor.applied().groups()) {
    if (std::ranges::find(group.slots, slot) == group.slots.end()) continue;
    return {group.batches[0].words(), group.batches[1].words()};
  }
  return {};
}

TEST_CASE("a slot that moves while it is trained is the same where it comes to") {
  for (const RunKind& kind : AllRunKinds()) {
    CAPTURE(kind);
    const Config config = RunConfig(kind);
    LocalCluster cluster(config, kRunSamples, {2});
    Executor* a = cluster.executors()[0];
    Executor* b = cluster.executors()[1];
    const SlotId slot{2};
    TrainRun(&cluster, 0, 6);
    SlotMove there(cluster.executors(), 0, 1, slot);
    TrainRun(&cluster, 6, 40, [&] { there.CopyPart(true, 4000); });
    const auto taken = TakenBy(*a, slot);
    there.Do(Kind::kSwitchPlan);
    CHECK_FALSE(a->output().layer().map().Owns(slot));
    there.CopyRest(5000);
    CheckSameRows(a, b, slot);
    there.Do(Kind::kAttach);
    there.Do(Kind::kRelease);
    CHECK(TakenBy(*b, slot) == taken);
    CHECK(TakenBy(*a, slot)[0].empty());
    CHECK(a->input().layer().map().owned().size() == 3);
    CHECK(b->input().layer().map().owned().size() == 5);
    CHECK(b->committed() == a->committed());
    TrainRun(&cluster, 40, 46);
    CHECK(b->applied().groups().size() == 1);
    // And back, into the region that it had.
    SlotMove back(cluster.executors(), 1, 0, slot);
    back.CopyColdRows();
    TrainRun(&cluster, 46, 48);
    back.Do(Kind::kSwitchPlan);
    back.CopyRest();
    CheckSameRows(b, a, slot);
    back.Do(Kind::kAttach);
    back.Do(Kind::kRelease);
    CHECK(a->output().layer().map().Layout() == std::vector<SlotId>{{0}, {1}, {2}, {3}});
    TrainRun(&cluster, 48, 50);
    CHECK(a->applied().groups().size() == 1);
  }
}

struct Moving {
  explicit Moving(const RunKind& kind = kHashed) : config(RunConfig(kind)) {
    TrainRun(&cluster, 0, 3);
  }
  std::string Put(SlotRows rows) { return DoAll(cluster.executors(), PutJob(std::move(rows))); }

  Config config;
  LocalCluster cluster{config, kRunSamples, {2}};
  SlotMove move{cluster.executors(), 0, 1, {3}};
};

TEST_CASE("a part that comes again is the same, others are refused") {
  Moving m;
  const Body first = m.move.Ask(0, true, 3000);
  CHECK(m.move.Ask(0, true, 3000) == first);
  const Body second = m.move.Ask(1, true, 3000);
  CHECK(second != first);
  CHECK(std::get<SlotRows>(second).rows.size() > 1);
  TrainRun(&m.cluster, 3, 5);
  CHECK(m.move.Ask(1, true, 100) == second);
  for (const uint32_t part : {3u, 7u, ~0u}) {
    const Body refused = m.move.Ask(part, true, 3000);
    CHECK(std::get<ErrorReply>(refused).text.find("slot 3") != std::string::npos);
  }
  CHECK(std::get<SlotRows>(m.move.Ask(2, false, 0)).rows.size() == 1);
  // The slot stays: the copy ends, and begins anew.
  REQUIRE(DoAll(m.cluster.executors(), {Kind::kSwitchPlan, {}}) == "");
  CHECK(std::holds_alternative<ErrorReply>(m.move.Ask(3, true, 3000)));
  m.move.CopyColdRows();
  m.move.Finish();
  CHECK(m.cluster.executors()[1]->output().layer().map().Owns({3}));
  // The slot is gone: nobody here answers with rows.
  CHECK(m.move.Ask(0, true, 3000) == Body{Ack{}});
}

TEST_CASE("parts that do not fit are refused by slot and row, and do no harm") {
  Moving m;
  Executor* b = m.cluster.executors()[1];
  const auto part = std::get<SlotRows>(m.move.Ask(0, false, 3000));
  REQUIRE(part.input_rows > 2);
  const auto refused = [&](const SlotRows& bad, const std::string& why) {
    const std::string error = m.Put(bad);
    CAPTURE(error);
    CHECK(error.find("slot 3") != std::string::npos);
    CHECK(error.find(why) != std::string::npos);
  };
  SlotRows bad = part;
  bad.rows[1] = 188;  // of 188
  refused(bad, "input row 188");
  bad = part;
  bad.input_rows = 0;
  refused(bad, fmt::format("output row {}", part.rows[0]));
  bad = part;
  bad.input_rows = 1000;
  refused(bad, "rows");
  bad = part;
  bad.ends.pop_back();
  refused(bad, "end");
  bad = part;
  bad.ends[1] = bad.ends[0] - 1;
  refused(bad, "out of order");
  bad = part;
  bad.ends.back()++;
  refused(bad, "out of order");
  bad = part;
  bad.bytes.resize(bad.bytes.size() - 4);
  refused(bad, "out of order");
  bad = part;
  bad.bytes.push_back(0);
  refused(bad, "behind");
  bad = part;
  bad.ends[0] -= 4;
  refused(bad, fmt::format("input row {}, which has not the size", part.rows[0]));

  SlotRows output = part;  // one with neurons
  for (uint32_t next = 1; output.input_rows == output.rows.size(); ++next) {
    output = std::get<SlotRows>(m.move.Ask(next, false, 3000));
  }
  bad = output;
  bad.bytes.back() = 1;  // the high byte of its changed flag
  refused(bad, "codes");
  bad.hash ^= 1;  // whatever they are, they are not used
  CHECK(m.Put(bad) == "");

  CHECK(DoAll(m.cluster.executors(), {Kind::kAttach, {{3}}}).find("slot 3 lacks input row") == 0);
  CHECK_FALSE(b->output().layer().map().Owns({3}));
  bad = part;
  bad.slot = 5;  // nobody's that comes
  CHECK(m.Put(bad) == "");
  bad.slot = 4000;
  CHECK(m.Put(bad) == "");

  m.move.CopyColdRows();
  CHECK(DoAll(m.cluster.executors(), {Kind::kAttach, {{3}}}).find("slot 3") !=
        std::string::npos);  // its last part is missing
  m.move.Do(Kind::kSwitchPlan);
  m.move.CopyRest();
  CheckSameRows(m.cluster.executors()[0], b, {3});
  m.move.Do(Kind::kAttach);
  CHECK(b->output().layer().map().Owns({3}));
}

TEST_CASE("codes by other functions are not taken: the rows are hashed where they come to") {
  Moving m;
  Executor* b = m.cluster.executors()[1];
  m.move.Do(Kind::kSwitchPlan);
  for (uint32_t next = 0;; ++next) {
    SlotRows part = std::get<SlotRows>(m.move.Ask(next, false, 1u << 20));
    part.hash ^= 1;
    REQUIRE(m.Put(part) == "");
    if (part.last) break;
  }
  m.move.Do(Kind::kAttach);
  const SlotMap& map = b->output().layer().map();
  for (uint32_t row = 0; row < map.SlotSize({3}); ++row) {
    REQUIRE(b->output().index()->tables().IsChanged(map.LocalRow({3}, row)));
  }
  TrainRun(&m.cluster, 3, 40);
  b->output().index()->tables().CatchUp();
  CHECK(b->output().index()->tables().tables().Code(0, map.LocalRow({3}, 0)) != kNoCode);
}

TEST_CASE("slots are reserved and given up again") {
  const Config config = RunConfig(kHashed);
  LocalCluster cluster(config, kRunSamples, {3});
  const auto executors = cluster.executors();
  Executor* b = executors[1];
  const auto memory = [](Executor* e) {
    return e->input().layer().MemoryBytes() + e->output().layer().MemoryBytes();
  };
  const uint64_t before = memory(b), of_slot = before / b->input().layer().map().owned().size();
  REQUIRE(DoAll(executors, {Kind::kReserve, {{0}, {1}, {0}}, 1}) == "");
  CHECK(memory(b) == before + 2 * of_slot);
  TrainRun(&cluster, 0, 2);
  // Elsewhere, after all.
  REQUIRE(DoAll(executors, {Kind::kReserve, {{1}}, 2}) == "");
  CHECK(memory(b) == before + of_slot);
  REQUIRE(DoAll(executors, {Kind::kDiscard, {{0}, {1}, {2}}}) == "");
  CHECK(memory(b) == before);
  CHECK(b->output().layer().map().regions() == b->output().layer().map().owned().size());
  TrainRun(&cluster, 2, 4);

  // What a slot had is gone from its region.
  SlotMove move(executors, 0, 1, {0});
  const uint64_t source = memory(executors[0]);
  move.CopyColdRows();
  move.Finish();
  CHECK(memory(executors[0]) < source);
  REQUIRE(DoAll(executors, {Kind::kReserve, {{7}}, 0}) == "");
  Layer& layer = executors[0]->output().layer();
  const std::vector<uint8_t> row = StoredRow(&layer, {7}, 3);
  CHECK(row == std::vector<uint8_t>(row.size()));

  Executor reader(config, kRunSamples, AllSlots(config), Purpose::kInference, BestKernels());
  CHECK_FALSE(reader.Do({Kind::kReserve, {{1}}, 0}).ok());
}

TEST_CASE("an executor goes on bit for bit only where the same slots lie in the same places") {
  const Config config = RunConfig(kHashed);
  LocalCluster cluster(config, kRunSamples, {2});
  TrainRun(&cluster, 0, 6);
  SlotMove(cluster.executors(), 0, 1, {1}).Finish();
  TrainRun(&cluster, 6, 9);
  MemoryStore store;
  for (uint32_t i = 0; i < 2; ++i) store.Save(cluster.executors()[i], i);
  // Whether an executor of these slots rehashes where the first one would have, not from the start.
  const auto goes_on = [&](const std::vector<SlotId>& slots) {
    const std::optional<HashPosition> stored = ExecutorRecord::Decode(store.records[0])->hash;
    REQUIRE(stored != HashPosition());
    Executor executor(config, kRunSamples, slots, Purpose::kTraining, BestKernels());
    REQUIRE(store.Load(&executor).ok());
    return executor.output().index()->tables().Position() == *stored;
  };
  CHECK(ExecutorRecord::Decode(store.records[0])->slots ==
        std::vector<SlotId>{{0}, SlotMap::kNoSlot, {2}, {3}});
  CHECK_FALSE(goes_on({{0}, {2}, {3}}));            // a hole was there
  CHECK_FALSE(goes_on({{1}, {4}, {5}, {6}, {7}}));  // another order
  SlotMove(cluster.executors(), 1, 0, {1}).Finish();
  store.Save(cluster.executors()[0], 0);
  store.Save(cluster.executors()[1], 1);
  CHECK(goes_on({{0}, {1}, {2}, {3}}));
}

}  // namespace
}  // namespace dslide::executor_slots_test
