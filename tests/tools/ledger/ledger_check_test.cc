#include "tools/dslide/ledger/ledger_check.h"
#include "common/checkpoint/layout.h"
#include "common/config/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "common/base/random.h"
#include "common/run/step.h"

namespace dslide::ledger_check_test {
namespace {

constexpr uint64_t kTrainSamples = 95;  // the last batch is a short one
constexpr uint32_t kSlots = 4;

Config SmallConfig() {
  Config config;
  config.train.epochs = 3;
  config.train.batch = 10;
  config.train.unit_batches = 4;
  config.cluster.slots = kSlots;
  return config;
}

const TrainConfig& Train() {
  static const Config config = SmallConfig();
  return config.train;
}

BatchId BatchAt(uint32_t epoch, uint32_t n) { return {epoch, n / 4, n % 4}; }

LedgerAccount AccountOf(const std::vector<LedgerEntry>& entries) {
  LedgerAccount account;
  for (size_t n = 0; n < entries.size(); ++n) REQUIRE(account.Add(n, entries[n]).ok());
  return account;
}

// A run as a scheduler and two servers that make no mistake leave it.
struct Run {
  std::vector<LedgerEntry> entries;
  CheckpointRecords records;

  LedgerCheck Verify() const { return CheckLedger(AccountOf(entries), records); }
};

class RunMaker {
 public:
  explicit RunMaker(uint64_t seed) : random_(seed) {
    Add(LedgerOpened{{7}, FormatConfig(SmallConfig()), kTrainSamples, 0});
    Restore();
  }

  // To the end, or until so many entries.
  Run Make(size_t entries) {
    while (epoch_ < Train().epochs && run_.entries.size() < entries) Step();
    Cut();
    Complete();
    if (epoch_ == Train().epochs) Add(LedgerStopped{true});
    return run_;
  }

 private:
  // Not inlined: GCC 12 warns of reading other kinds of entries where it knows the kind.
  [[gnu::noinline]] void Add(LedgerEntry entry) { run_.entries.push_back(std::move(entry)); }

  void Step() {
    const uint64_t draw = random_.Below(100);
    if (draw < 3) return Restore();
    if (draw < 10 && under_way_) return Complete();
    if (draw < 10) return Cut();
    if (draw < 13 && !under_way_) return Move();  // not while a checkpoint is written
    if (done_.size() == BatchesPerEpoch(Train(), kTrainSamples)) {
      Add(LedgerEpochDone{++epoch_});
      done_.clear();
      return;
    }
    const auto n = static_cast<uint32_t>(random_.Below(BatchesPerEpoch(Train(), kTrainSamples)));
    const BatchId batch = BatchAt(epoch_, n);
    if (std::count(done_.begin(), done_.end(), DoneBatch{batch.unit, batch.index}) > 0) return;
    done_.push_back({batch.unit, batch.index});
    batches_++;
    const uint64_t samples = SamplesOf(batch, Train(), kTrainSamples);
    samples_ += samples;
    Add(LedgerCounted{batch, static_cast<uint32_t>(samples), "w"});
    for (AppliedBatches::Group& group : groups_) {
      for (BatchSet& set : group.batches) set.Add(BatchNumber(batch, Train(), kTrainSamples));
    }
  }

  // The servers exchange their slots, with the records of what these have taken.
  void Move() {
    std::swap(groups_[0], groups_[1]);
    Add(LedgerPlanned{{++plan_, {}, {}, "", generation_}});
  }

  // The scheduler's moment, and that of the first server.
  void Cut() {
    Manifest manifest;
    manifest.run = {7};
    manifest.name = CheckpointName(batches_);
    manifest.epoch = epoch_;
    manifest.batches = batches_;
    manifest.samples = samples_;
    manifest.train_samples = kTrainSamples;
    manifest.done = done_;
    manifest.ledger_position = run_.entries.size();
    under_way_ = CheckpointRecords{manifest, {groups_[0]}};
  }

  // The other server cuts later, when it has taken more.
  void Complete() {
    run_.records = *under_way_;
    run_.records.groups.push_back(groups_[1]);
    under_way_.reset();
    Add(LedgerCheckpointed{run_.records.manifest.name, run_.records.manifest.batches});
  }

  void Restore() {
    under_way_.reset();
    const Manifest& manifest = run_.records.manifest;
    epoch_ = manifest.epoch;
    batches_ = manifest.batches;
    samples_ = manifest.samples;
    done_ = manifest.done;
    groups_ = run_.records.groups;
    if (groups_.empty()) groups_ = {{{{0}, {2}}, {}}, {{{1}, {3}}, {}}};
    Add(LedgerRestored{manifest.name, epoch_, batches_, samples_, done_});
    generation_ = ++plan_;
    Add(LedgerPlanned{{plan_, {}, {}, manifest.name, generation_}});
  }

  Random random_;
  Run run_;
  std::optional<CheckpointRecords> under_way_;
  uint32_t epoch_ = 0, plan_ = 0, generation_ = 0;
  uint64_t batches_ = 0, samples_ = 0;
  std::vector<DoneBatch> done_;
  std::vector<AppliedBatches::Group> groups_;
};

// The last LedgerCounted's place.
size_t LastCounted(const Run& run) {
  for (size_t n = run.entries.size(); n-- > 0;) {
    if (std::holds_alternative<LedgerCounted>(run.entries[n])) return n;
  }
  FAIL("nothing counts");
  return 0;
}

// A finished run without recoveries and moves, by which faults are planted.
Run Undisturbed() {
  for (uint64_t seed = 1;; ++seed) {
    const Run run = RunMaker(seed).Make(SIZE_MAX);
    const auto planned = [](const LedgerEntry& e) {
      return std::holds_alternative<LedgerPlanned>(e);
    };
    if (std::count_if(run.entries.begin(), run.entries.end(), planned) == 1) return run;
  }
}

TEST_CASE("runs with recoveries, finished or not, count every sample once") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Run run = RunMaker(seed).Make(seed % 2 == 0 ? SIZE_MAX : 40 + seed % 30);
    const LedgerCheck check = run.Verify();
    for (const std::string& problem : check.problems) FAIL_CHECK(problem);
    CHECK(check.duplicated == 0);
    CHECK(check.missing == 0);
    CHECK(check.lacking == 0);
    if (seed % 2 == 0) CHECK(check.seen == Train().epochs * kTrainSamples);
    CHECK(check.clean());
  }
}

TEST_CASE("batches that count since the last checkpoint are in none") {
  Run run = Undisturbed();
  CHECK(run.Verify().unsaved == 0);
  while (!std::holds_alternative<LedgerCheckpointed>(run.entries.back())) run.entries.pop_back();
  const uint64_t saved = std::get<LedgerCheckpointed>(run.entries.back()).batches;
  const LedgerAccount account = AccountOf(run.entries);
  const uint64_t counted = account.batches();
  CHECK(CheckLedger(account, std::nullopt).unsaved == counted);
  CheckpointRecords records;
  records.manifest.batches = saved - 2;
  CHECK(CheckLedger(account, records).unsaved == counted - (saved - 2));
}

TEST_CASE("a finished run that is opened for more epochs has not missed them") {
  Run run = Undisturbed();
  Config more = SmallConfig();
  more.train.epochs += 2;
  run.entries.push_back(LedgerOpened{{7}, FormatConfig(more), kTrainSamples, 0});
  const LedgerCheck check = run.Verify();
  CHECK(check.missing == 0);
  CHECK(check.clean());
}

TEST_CASE("a run that is opened for fewer epochs than it has trained keeps them") {
  Run run = Undisturbed();
  Config fewer = SmallConfig();
  REQUIRE(fewer.train.epochs > 1);
  fewer.train.epochs = 1;
  run.entries.push_back(LedgerOpened{{7}, FormatConfig(fewer), kTrainSamples, 0});
  run.entries.push_back(LedgerStopped{true});
  const LedgerCheck check = run.Verify();
  for (const std::string& problem : check.problems) FAIL_CHECK(problem);
  CHECK(check.seen == Train().epochs * kTrainSamples);
  CHECK(check.missing == 0);
}

TEST_CASE("of a run that is opened for fewer epochs those that never begin are forgotten") {
  Run run = Undisturbed();
  Config more = SmallConfig(), fewer = SmallConfig();
  more.train.epochs = 60;
  fewer.train.epochs = 4;
  const auto opened = [&](const Config& config) {
    run.entries.push_back(LedgerOpened{{7}, FormatConfig(config), kTrainSamples, 0});
    return AccountOf(run.entries);
  };
  const uint64_t batches = BatchesPerEpoch(Train(), kTrainSamples);
  CHECK(opened(more).epochs() == 60);
  CHECK(opened(fewer).epochs() == 4);
  CHECK(opened(fewer).batches_of_run() == 4 * batches);
  CHECK(opened(SmallConfig()).epochs() == 3);
  CHECK(opened(SmallConfig()).batches_of_run() == 3 * batches);
  CHECK(run.Verify().clean());
  // An epoch that has begun stays.
  opened(more);
  run.entries.push_back(LedgerCounted{{3, 0, 0}, 10, "w"});
  CHECK(opened(SmallConfig()).epochs() == 4);
}

TEST_CASE("a batch that counts again in the surviving history is duplicated") {
  Run run = Undisturbed();
  const size_t at = LastCounted(run);
  const auto counted = std::get<LedgerCounted>(run.entries[at]);
  run.entries.insert(run.entries.begin() + static_cast<ptrdiff_t>(at), counted);
  run.records.manifest.ledger_position++;
  const LedgerCheck check = run.Verify();
  CHECK(check.duplicated == counted.samples);
  CHECK(check.missing == 0);
  CHECK(check.seen == Train().epochs * kTrainSamples);
  CHECK_FALSE(check.clean());
}

TEST_CASE("what counted twice and was lost in a recovery is not duplicated") {
  const LedgerCounted counted{{0, 0, 0}, 10, "w"};
  const std::vector<LedgerEntry> entries = {
      LedgerOpened{{7}, FormatConfig(SmallConfig()), kTrainSamples, 0},
      LedgerRestored{},
      LedgerPlanned{},
      counted,
      LedgerCheckpointed{"a", 1},
      LedgerCounted{{0, 0, 1}, 10, "w"},
      counted,
      LedgerCounted{{0, 0, 1}, 10, "w"}};
  LedgerAccount account = AccountOf(entries);
  CHECK(account.Epochs()[0].duplicated == 20);
  REQUIRE(account.Add(entries.size(), LedgerRestored{"a", 0, 1, 10, {{0, 0}}}).ok());
  REQUIRE(account.Add(entries.size() + 1, LedgerPlanned{}).ok());
  CHECK(account.Epochs()[0].duplicated == 0);
  CHECK(account.Epochs()[0].seen == 10);
  CHECK(account.recoveries() == 1);
  CHECK(account.generations() == 2);
  CHECK(account.problems().empty());
}

TEST_CASE("a plan by which slots move is no recovery, and takes nothing back") {
  const auto planned = [](uint32_t version, uint32_t generation) {
    return LedgerPlanned{{version, {}, {}, "", generation}};
  };
  std::vector<LedgerEntry> entries = {
      LedgerOpened{{7}, FormatConfig(SmallConfig()), kTrainSamples, 0},
      LedgerRestored{},
      planned(1, 1),
      LedgerCounted{{0, 0, 0}, 10, "w"},
      planned(2, 1),
      LedgerCounted{{0, 0, 1}, 10, "w"},
      planned(3, 1)};
  LedgerAccount account = AccountOf(entries);
  CHECK(account.recoveries() == 0);
  CHECK(account.generations() == 1);
  CHECK(account.Epochs()[0].seen == 20);
  // A batch counts once a generation, whatever plans it has.
  REQUIRE(account.Add(7, LedgerCounted{{0, 0, 0}, 10, "w"}).ok());
  CHECK(account.Epochs()[0].duplicated == 10);
  REQUIRE(account.Add(8, LedgerRestored{}).ok());
  REQUIRE(account.Add(9, planned(4, 4)).ok());
  REQUIRE(account.Add(10, planned(5, 4)).ok());
  CHECK(account.recoveries() == 1);
  CHECK(account.generations() == 2);
  CHECK(account.Epochs()[0].seen == 0);
  CHECK(account.problems().empty());
}

TEST_CASE("a batch that did not count is missing once its epoch is done") {
  Run run = Undisturbed();
  const size_t at = LastCounted(run);
  const auto counted = std::get<LedgerCounted>(run.entries[at]);
  run.entries.erase(run.entries.begin() + static_cast<ptrdiff_t>(at));
  run.records.manifest.ledger_position--;
  const LedgerCheck check = run.Verify();
  CHECK(check.missing == counted.samples);
  CHECK(check.duplicated == 0);
  CHECK(check.seen == Train().epochs * kTrainSamples - counted.samples);
  CHECK_FALSE(check.clean());
}

TEST_CASE("a batch that a slot lacks the output part or the input part of is missing") {
  for (const Part part : {Part::kOutput, Part::kInput}) {
    for (const size_t group : {0, 1}) {
      Run run = Undisturbed();
      BatchSet& set = run.records.groups[group].batches[static_cast<size_t>(part)];
      std::vector<uint64_t> words = set.words();
      words[0] ^= 1 << 9;  // the short batch of the first epoch
      set = BatchSet(words);
      const LedgerCheck check = run.Verify();
      CHECK(check.missing == 5);
      CHECK(check.lacking == 1);
      CHECK(check.duplicated == 0);
      CHECK_FALSE(check.clean());
    }
  }
}

TEST_CASE("slots without a record and with two are found") {
  Run run = Undisturbed();
  run.records.groups[1].slots = {{1}};
  LedgerCheck check = run.Verify();
  CHECK(check.missing == Train().epochs * kTrainSamples);
  CHECK(check.seen == 0);
  CHECK(check.problems[0].ends_with("has no record of slot 3"));

  run = Undisturbed();
  run.records.groups[1].slots.push_back({2});
  check = run.Verify();
  CHECK(check.duplicated == Train().epochs * kTrainSamples);
  CHECK(check.missing == 0);
  CHECK(check.problems[0].ends_with("has 2 records of slot 2"));
}

TEST_CASE("a ledger that lost entries, and checkpoints that are not of the run, are found") {
  const auto problem_after = [](const std::function<void(Run*)>& change) {
    Run run = Undisturbed();
    change(&run);
    const LedgerCheck check = run.Verify();
    CHECK_FALSE(check.clean());
    return check.problems.empty() ? "" : check.problems[0];
  };
  CHECK(problem_after([](Run* run) {
          run->entries.resize(run->entries.size() - 3);
        }).find("some are lost") != std::string::npos);
  CHECK(problem_after([](Run* run) {
          run->records.manifest.run = {8};
        }).ends_with("is of another run"));
  CHECK(problem_after([](Run* run) {
          run->entries.push_back(LedgerRestored{});
        }).ends_with("is none of the surviving history, which goes on from the beginning"));
  CHECK(problem_after([](Run* run) {
          run->records.groups[0].batches[0].Add(30);
        }).ends_with("slot 0 has taken batch number 30 of 30"));
}

TEST_CASE("what makes no sense in a ledger is named with its entry") {
  const auto problem_of = [](const LedgerEntry& entry) {
    LedgerAccount account;
    REQUIRE(account.Add(0, LedgerOpened{{7}, FormatConfig(SmallConfig()), kTrainSamples, 0}).ok());
    REQUIRE(account.Add(1, LedgerCounted{{0, 0, 0}, 10, "w"}).ok());
    REQUIRE(account.Add(2, entry).ok());
    return account.problems().size() == 1 ? account.problems()[0] : "";
  };
  CHECK(problem_of(LedgerCounted{{0, 2, 2}, 10, "w"}) ==
        "entry 2 counts batch 2 of unit 2 of epoch 1, which the run does not have");
  CHECK(problem_of(LedgerCounted{{0, 2, 1}, 10, "w"}) ==
        "entry 2 counts batch 1 of unit 2 of epoch 1 with 10 samples; it has 5");
  CHECK(problem_of(LedgerCounted{{1, 0, 0}, 10, "w"}) ==
        "entry 2 counts batch 0 of unit 0 of epoch 2, an epoch that has not begun");
  CHECK(problem_of(LedgerEpochDone{2}) == "entry 2 says that 2 epochs are done, after 0");
  CHECK(problem_of(LedgerRestored{"a", 0, 2, 20, {{0, 0}}}) ==
        "entry 2 says that 2 batches count, but 1 do");
}

TEST_CASE("a run that goes on from an earlier run's checkpoint takes its account over") {
  LedgerAccount account;
  REQUIRE(account.Add(0, LedgerOpened{{7}, FormatConfig(SmallConfig()), kTrainSamples, 0}).ok());
  REQUIRE(account.Add(1, LedgerRestored{"a", 1, 11, 105, {{2, 0}}}).ok());
  CHECK(account.problems().empty());
  CHECK(account.inherited() == 11);
  CHECK(account.Epochs()[0].missing == 0);
  CHECK(account.Epochs()[1].seen == 10);
  const LedgerOpened other{{8}, FormatConfig(SmallConfig()), kTrainSamples, 0};
  CHECK_FALSE(account.Add(2, other).ok());
}

}  // namespace
}  // namespace dslide::ledger_check_test
