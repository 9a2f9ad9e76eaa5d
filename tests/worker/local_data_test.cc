#include "worker/local_data.h"

#include <doctest/doctest.h>

#include "common/data/checksum.h"
#include "common/run/lease_batch.h"
#include "common/run/slot_plan.h"
#include "tests/support/events.h"
#include "tests/support/numbered_samples.h"
#include "worker/events.h"
#include "worker/worker_core.h"

namespace dslide::local_data_test {
namespace {

constexpr uint32_t kSamples = 50, kLabels = 10, kBatch = 4, kUnitBatches = 3;

TrainingFile FileOf(Dataset data) {
  const uint64_t checksum = Checksum(data);
  return {"train.txt", std::move(data), checksum};
}

// A run on 50 samples in 13 batches in 5 units, and a worker that has the file.
struct FileRun {
  TrainingFile file = FileOf(NumberedSamples(kSamples, kLabels));
  Config config;

  FileRun() {
    config.train.data = "theirs.txt";
    config.train.batch = kBatch;
    config.train.unit_batches = kUnitBatches;
    ResolveConfig(kSamples, kLabels, &config);
  }
  JoinReply Reply() const { return {"worker", FormatConfig(config), kSamples, file.checksum}; }
  DataOrder Order(uint32_t epoch) const {
    return DataOrder::Epoch(file.data, config.common.seed, epoch, kBatch);
  }
  LeaseGrant ByNumbers(uint32_t epoch, uint32_t unit, std::vector<uint32_t> indices) const {
    LeaseGrant grant{3, LeaseKind::kTrain, epoch, unit, 5, {}};
    for (const uint32_t index : indices) {
      grant.batches.push_back(BatchByNumbers(Order(epoch), unit * kUnitBatches + index, index));
    }
    return grant;
  }
};

TEST_CASE_FIXTURE(FileRun, "batches get the samples that the scheduler would have sent") {
  LocalData local(&file);
  REQUIRE(local.Join(config, Reply()).ok());
  CHECK(local.in_use());
  for (const uint32_t epoch : {0, 1, 0}) {
    LeaseGrant grant = ByNumbers(epoch, 3, {0, 2});
    REQUIRE(local.Complete(config, &grant).ok());
    REQUIRE(grant.batches.size() == 2);
    CHECK(grant.batches[0] == BatchWithSamples(Order(epoch), 9, 0));
    CHECK(grant.batches[1] == BatchWithSamples(Order(epoch), 11, 2));
  }
  LeaseGrant last = ByNumbers(0, 4, {0});
  REQUIRE(local.Complete(config, &last).ok());
  CHECK(last.batches[0].features.rows() == 2);
}

TEST_CASE_FIXTURE(FileRun, "batches that come with samples stay as they are") {
  LeaseGrant grant{3, LeaseKind::kEvaluate, 1, 0, 5, {BatchWithSamples(Order(7), 0, 0)}};
  const LeaseGrant before = grant;
  for (const TrainingFile* has :
       {static_cast<const TrainingFile*>(nullptr), &std::as_const(file)}) {
    LocalData local(has);
    REQUIRE(local.Join(config, Reply()).ok());
    REQUIRE(local.Complete(config, &grant).ok());
    CHECK(grant == before);
  }
  grant.batches[0].features.values.clear();
  CHECK_FALSE(LocalData(&file).Complete(config, &grant).ok());
}

TEST_CASE_FIXTURE(FileRun, "a file that is not the run's is refused, and what differs is named") {
  const auto refused = [&](const TrainingFile& other, const std::string& names) {
    LocalData local(&other);
    const Status status = local.Join(config, Reply());
    REQUIRE_FALSE(status.ok());
    CHECK_FALSE(local.in_use());
    const Error& error = status.error();
    CAPTURE(error.message);
    CHECK(error.kind == ErrorKind::kBadInput);
    CHECK(error.message.starts_with("train.txt: "));
    CHECK(error.message.find(names) != std::string::npos);
    CHECK(error.message.find("theirs.txt") != std::string::npos);
    CHECK(error.message.find('\n') == std::string::npos);
  };
  refused(FileOf(NumberedSamples(49, kLabels)), "49 samples, but the run trains on 50");
  Dataset wide(kSamples + 1, kLabels), many(kSamples, kLabels + 1), changed(kSamples, kLabels);
  for (uint32_t i = 0; i < kSamples; ++i) {
    SampleView sample = file.data[i];
    wide.Add(sample);
    many.Add(sample);
    const float value = i == 30 ? 1.5f : 1.0f;
    sample.values = {&value, 1};
    changed.Add(sample);
  }
  refused(FileOf(std::move(wide)), "51 features, but the run trains on 50");
  refused(FileOf(std::move(many)), "11 labels, but the run trains on 10");
  refused(FileOf(std::move(changed)), "other samples");
}

TEST_CASE_FIXTURE(FileRun, "without the scheduler's checksum the samples come from it") {
  LocalData local(&file);
  JoinReply reply = Reply();
  reply.train_checksum = 0;
  CHECK(local.Join(config, reply).ok());
  CHECK_FALSE(local.in_use());
}

TEST_CASE_FIXTURE(FileRun, "numbers that the file does not have are refused") {
  LocalData local(&file);
  REQUIRE(local.Join(config, Reply()).ok());
  const auto refused = [&](LeaseGrant grant) { return !local.Complete(config, &grant).ok(); };
  const LeaseGrant good = ByNumbers(0, 1, {1});
  CHECK_FALSE(refused(good));
  for (const uint64_t first : {uint64_t{0}, uint64_t{17}, uint64_t{48}, ~uint64_t{0}}) {
    LeaseGrant bad = good;
    bad.batches[0].first_sample = first;
    CHECK(refused(bad));
  }
  for (const uint32_t samples : {0u, 3u, 5u, kMaxBatchSamples}) {
    LeaseGrant bad = good;
    bad.batches[0].samples = samples;
    CHECK(refused(bad));
  }
  for (const uint32_t huge : {9u, 13u, ~0u}) {
    LeaseGrant bad = good;
    bad.batches[0].index = huge;
    CHECK(refused(bad));
    bad = good;
    bad.unit = huge;
    CHECK(refused(bad));
  }
  LeaseGrant evaluation = good;
  evaluation.kind = LeaseKind::kEvaluate;
  CHECK(refused(evaluation));
  CHECK(LocalData(nullptr).Complete(config, &evaluation).ok() == false);
}

// The messages of a WorkerCore that was handed `file`, or nullptr.
struct Worker {
  Config config;
  WorkerCore core;
  int64_t now = 0;

  Worker(const FileRun& run, const TrainingFile* file)
      : config(run.config), core({5}, "w", 2, file) {
    (void)core.Start(0);
  }
  WorkerCore::Effects Take(Body body) {
    return core.Handle(WorkerCore::kScheduler, {{{77}, {9}, 1, 0, 1}, std::move(body)}, 10, now);
  }
  WorkerCore::Effects TakePlan() {
    return Take(EqualPlan(1, config.cluster.slots, {{"a", "tcp://a"}}));
  }
};

template <typename T>
std::vector<T> Sent(const WorkerCore::Effects& effects) {
  std::vector<T> bodies;
  for (const auto& out : effects.send) {
    if (const T* body = std::get_if<T>(&out.message.body)) bodies.push_back(*body);
  }
  return bodies;
}

TEST_CASE_FIXTURE(FileRun, "a worker with the file says so and works on numbers") {
  Worker worker(*this, &file);
  CHECK_FALSE(worker.Take(Reply()).exit);
  const auto requests = Sent<LeaseRequest>(worker.TakePlan());
  REQUIRE(requests.size() == 1);
  CHECK(requests[0].has_data);
  const auto started = Sent<EmbedRequest>(worker.Take(ByNumbers(0, 0, {0})));
  REQUIRE(started.size() == 1);
  const auto expected = BatchWithSamples(Order(0), 0, 0);
  REQUIRE(started[0].features.rows() == kBatch);
  for (uint32_t i = 0; i < kBatch; ++i) {
    CHECK(started[0].features.Ids(i)[0] == expected.features.Ids(i)[0]);
  }
}

TEST_CASE_FIXTURE(FileRun, "a worker whose file is not the run's leaves before it has a lease") {
  const TrainingFile other = FileOf(NumberedSamples(kSamples - 1, kLabels));
  Worker worker(*this, &other);
  const auto effects = worker.Take(Reply());
  REQUIRE(effects.exit);
  CHECK(effects.exit->error().kind == ErrorKind::kBadInput);
  REQUIRE(Sent<Leave>(effects).size() == 1);
  CHECK(effects.send[0].message.envelope.run == RunId{77});
  CHECK_FALSE(worker.core.joined());
  CHECK(worker.TakePlan().send.empty());
}

TEST_CASE_FIXTURE(FileRun, "a lease by numbers is not taken by a worker without the file") {
  Worker worker(*this, nullptr);
  (void)worker.Take(Reply());
  const auto requests = Sent<LeaseRequest>(worker.TakePlan());
  REQUIRE(requests.size() == 1);
  CHECK_FALSE(requests[0].has_data);
  const auto effects = worker.Take(ByNumbers(0, 0, {0, 1}));
  CHECK(effects.send.empty());
  CHECK_FALSE(effects.exit);
  CHECK(Has(effects.notices, event::kLeaseUnusable));
  // It goes on, but does not take one lease after the other.
  CHECK(Sent<LeaseRequest>(worker.core.Tick({}, 1'999'000)).empty());
  CHECK(Sent<LeaseRequest>(worker.core.Tick({}, 2'000'000)).size() == 1);
}

}  // namespace
}  // namespace dslide::local_data_test
