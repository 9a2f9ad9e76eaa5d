// Evaluations in a run with keys: a worker's predictions are compared with those of others.
#include "scheduler/pass/evaluation.h"

#include <doctest/doctest.h>

#include <limits>
#include <memory>

#include "scheduler/pass/pass.h"
#include "tests/support/numbered_samples.h"

namespace dslide::evaluation_test {
namespace {

// Members of a key have its fingerprint in their upper half.
constexpr Incarnation Of(uint64_t key) { return {key << 32 | 1}; }
constexpr Incarnation kAlice = Of(1), kBob = Of(2), kMallory = Of(9);

// 8 test samples in 2 batches of 4, after an epoch of 1 batch.
struct Setup {
  explicit Setup(std::vector<Incarnation> members, bool keyed = true)
      : train(NumberedSamples(4, 10)),
        test(NumberedSamples(8, 10)),
        workers(std::move(members)),
        pass(CountedWork{1, 1, 4, {}}) {
    run.config.train.epochs = 1;
    run.config.train.batch = 4;
    run.config.train.unit_batches = 8;
    run.config.model.labels = 10;
    run.train = &train;
    run.test = &test;
    run.keyed = keyed;
    pass.Begin(run, &out);
    pass.BeginEvaluation(run, EvaluationSet::kTest, InversePropensities());
    if (keyed) pass.audits()->Follow({{{Evaluation::kWitness, true, false}}, workers});
  }
  std::vector<Audits::Outcome> EndAudits(int64_t at_ms) {
    if (pass.audits() == nullptr) return {};
    std::vector<Audits::Outcome> ended = pass.audits()->Ended(at_ms);
    for (Audits::Outcome& outcome : ended) pass.Settle(&outcome);
    return ended;
  }
  // Leases one batch; -1: there is none.
  int Ask(Incarnation worker) {
    Pass::Applicant applicant;
    applicant.worker = worker;
    applicant.speed = [](Incarnation) { return 0.0; };
    grant = pass.Lease(run, applicant, now_ms).value_or(LeaseGrant());
    return grant.batches.empty() ? -1 : static_cast<int>(grant.batches[0].index);
  }
  // Evaluates what was leased last; wrong: none of the predictions is right.
  bool Answer(Incarnation worker, bool wrong = false, uint32_t plan_version = 1) {
    BatchDone done;
    done.lease = grant.lease;
    done.batch = {grant.epoch, grant.unit, grant.batches.at(0).index};
    done.samples = 4;
    done.predictions.offsets = {0, 1, 2, 3, 4};
    const uint32_t first = 4 * done.batch.index;
    for (uint32_t i = 0; i < 4; ++i) {
      done.predictions.ids.push_back((first + i + (wrong ? 1 : 0)) % 10);
    }
    return pass.CountEvaluated(run, done, plan_version, now_ms, worker);
  }
  double Precision() {
    std::vector<EvaluatedSample> examples;
    return pass.EndEvaluation(&examples).metrics.precision[0];
  }

  Dataset train, test;
  std::vector<Incarnation> workers;
  RunContext run;
  Outbox out{0};
  Pass pass;
  LeaseGrant grant;
  int64_t now_ms = 0;
};

}  // namespace

TEST_CASE("evaluation: who always lies is found at the first batch, and all begins again") {
  Setup run({kAlice, kBob, kMallory});
  REQUIRE(run.Ask(kMallory) == 0);
  CHECK(run.Answer(kMallory, true));
  CHECK(run.pass.unconfirmed() == 1);
  REQUIRE(run.Ask(kAlice) == 0);  // once more
  CHECK_FALSE(run.Answer(kAlice));
  CHECK(run.EndAudits(0).empty());  // one word against the other
  REQUIRE(run.Ask(kBob) == 0);
  CHECK_FALSE(run.Answer(kBob));
  const auto ended = run.EndAudits(0);
  REQUIRE(ended.size() == 1);
  REQUIRE(ended[0].liars.size() == 1);
  CHECK(ended[0].liars[0].worker == kMallory);
  CHECK(ended[0].take_back);

  REQUIRE(run.pass.EvaluateAgain(run.run));
  run.pass.audits()->Follow({{{Evaluation::kWitness, true, false}}, {kAlice, kBob}});
  while (!run.pass.complete()) {
    for (const Incarnation worker : {kAlice, kBob}) {
      if (run.Ask(worker) >= 0) (void)run.Answer(worker);
    }
    CHECK(run.EndAudits(0).size() <= 2);
  }
  CHECK(run.Precision() == 1.0);
}

TEST_CASE("evaluation: honest workers agree, and what the first one said counts") {
  Setup run({kAlice, kBob});
  REQUIRE(run.Ask(kAlice) == 0);
  CHECK(run.Answer(kAlice));
  REQUIRE(run.Ask(kBob) == 0);
  CHECK_FALSE(run.Answer(kBob));
  const auto ended = run.EndAudits(0);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].liars.empty());
  CHECK_FALSE(ended[0].take_back);
}

TEST_CASE("evaluation: of two that differ nobody is believed more, and it goes on") {
  Setup run({kAlice, kMallory});
  REQUIRE(run.Ask(kMallory) == 0);
  CHECK(run.Answer(kMallory, true));
  REQUIRE(run.Ask(kAlice) == 0);
  CHECK_FALSE(run.Answer(kAlice));
  const auto ended = run.EndAudits(0);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].undecided);
  CHECK(ended[0].liars.empty());
  CHECK_FALSE(ended[0].take_back);
}

TEST_CASE("evaluation: nobody asks for the second look, and it goes on after a while") {
  Setup run({kAlice, kBob});
  REQUIRE(run.Ask(kAlice) == 0);
  CHECK(run.Answer(kAlice));
  CHECK(run.EndAudits(1).empty());
  const auto ended = run.EndAudits(1'000'000);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].skipped);
  CHECK_FALSE(ended[0].take_back);
}

TEST_CASE("evaluation: who answers with nonsense is not waited for") {
  Setup run({kAlice, kBob, kMallory});
  REQUIRE(run.Ask(kAlice) == 0);
  CHECK(run.Answer(kAlice));
  REQUIRE(run.Ask(kMallory) == 0);
  BatchDone nonsense;
  nonsense.batch = {run.grant.epoch, run.grant.unit, 0};
  nonsense.predictions.offsets = {0, 1};
  nonsense.predictions.ids = {77};
  CHECK_FALSE(run.pass.CountEvaluated(run.run, nonsense, 1, 0, kMallory));
  REQUIRE(run.Ask(kBob) == 0);  // at once
  CHECK_FALSE(run.Answer(kBob));
  CHECK(run.EndAudits(0).size() == 1);
}

TEST_CASE("evaluation: what servers of another plan answered is not compared") {
  Setup run({kAlice, kBob});
  REQUIRE(run.Ask(kAlice) == 0);
  CHECK(run.Answer(kAlice, false, 1));
  REQUIRE(run.Ask(kBob) == 0);
  CHECK_FALSE(run.Answer(kBob, true, 2));  // other servers, another answer
  CHECK(run.pass.unconfirmed() == 0);
  CHECK(run.EndAudits(0).empty());
}

TEST_CASE("evaluation: reports by an earlier plan do not count, so none is kept back") {
  Setup run({kAlice, kMallory});
  REQUIRE(run.Ask(kMallory) == 0);
  const LeaseGrant kept = run.grant;
  REQUIRE(run.Ask(kAlice) == 1);
  CHECK(run.Answer(kAlice, false, 2));
  run.grant = kept;
  CHECK_FALSE(run.Answer(kMallory, true, 1));
  CHECK(run.pass.batches_left() == 1);
}

TEST_CASE("evaluation: a plan switch ends what is compared") {
  Setup run({kAlice, kBob});
  REQUIRE(run.Ask(kAlice) == 0);
  CHECK(run.Answer(kAlice));
  CHECK(run.pass.unconfirmed() == 1);
  run.pass.OnPlanSwitch();
  CHECK(run.pass.unconfirmed() == 0);
}

TEST_CASE("evaluation: it does not begin again for ever") {
  Setup run({kAlice, kBob});
  for (int i = 0; i < Evaluation::kMostAgain; ++i) CHECK(run.pass.EvaluateAgain(run.run));
  CHECK_FALSE(run.pass.EvaluateAgain(run.run));
}

TEST_CASE("evaluation: without keys there is nobody to compare with") {
  Setup run({kAlice, kBob}, false);
  REQUIRE(run.Ask(kAlice) == 0);
  CHECK(run.Answer(kAlice));
  CHECK(run.pass.unconfirmed() == 0);
  REQUIRE(run.Ask(kBob) == 1);
}

// Three samples in a batch, of the labels 0, 1 and 2, of which 1 is rare. The model prefers another
// frequent label to each.
struct Adjusted {
  Adjusted() : test(NumberedSamples(3, 10)), pass(CountedWork{1, 1, 4, {}}) {
    run.config.train.epochs = 1;
    run.config.train.batch = 4;
    run.config.model.labels = 10;
    run.train = &train;
    run.test = &test;
    run.label_logs = std::make_shared<const LabelLogs>(
        std::vector<LabelCount>{{0, 100}, {1, 1}, {2, 100}, {3, 100}});
    pass.Begin(run, &out);
  }
  // Each sample's own label has the logit 1; label 0, or 3 for the first sample, has 1.5.
  bool Answer(const std::vector<float>& scores = {1.5f, 1, 1.5f, 1, 1.5f, 1}) {
    Pass::Applicant applicant;
    applicant.speed = [](Incarnation) { return 0.0; };
    const std::optional<LeaseGrant> grant = pass.Lease(run, applicant, 0);
    REQUIRE(grant);
    top_k = grant->top_k;
    BatchDone done;
    done.lease = grant->lease;
    done.batch = {grant->epoch, grant->unit, grant->batches.at(0).index};
    done.samples = 3;
    done.predictions.ids = {3, 0, 0, 1, 0, 2};
    done.predictions.scores = scores;
    done.predictions.offsets = {0, 2, 4, 6};
    done.predictions.ids.insert(done.predictions.ids.end(), extra.begin(), extra.end());
    done.predictions.offsets.back() += static_cast<uint32_t>(extra.size());
    return pass.CountEvaluated(run, done, 1, 0);
  }

  Dataset train = NumberedSamples(4, 10);
  Dataset test;
  RunContext run;
  Outbox out{0};
  Pass pass;
  uint32_t top_k = 0;
  std::vector<uint32_t> extra;  // labels of the last sample behind its two
};

TEST_CASE("evaluation: with a logit adjustment a rare label comes before a frequent one") {
  Adjusted run;
  run.pass.BeginEvaluation(run.run, EvaluationSet::kTest, InversePropensities(), 0,
                           {run.run.label_logs, 0.3f});
  CHECK(run.Answer());
  CHECK(run.top_k == kAdjustedLabels);
  std::vector<EvaluatedSample> examples;
  const EvaluationResult result = run.pass.EndEvaluation(&examples);
  CHECK(result.metrics.precision[0] == doctest::Approx(1.0 / 3));  // of label 1 alone
  CHECK(result.ranked.empty());
  REQUIRE(examples.size() == 3);
  CHECK(examples[1].predicted == std::vector<uint32_t>{1, 0});
  CHECK(examples[2].predicted == std::vector<uint32_t>{0, 2});
}

TEST_CASE("evaluation: predictions for held-out samples are kept, as the model ranks them") {
  Adjusted run;
  run.run.dev = &run.test;
  run.pass.BeginEvaluation(run.run, EvaluationSet::kHeldOut, InversePropensities(), 0,
                           {run.run.label_logs, {}, true});
  CHECK(run.Answer());
  std::vector<EvaluatedSample> examples;
  const EvaluationResult result = run.pass.EndEvaluation(&examples);
  CHECK(result.metrics.precision[0] == 0);
  CHECK(result.ndcg.size() == 3);
  REQUIRE(result.ranked.size() == 3);
  for (uint32_t i = 0; i < 3; ++i) CHECK(result.ranked[i].labels == std::vector<uint32_t>{i});
  CHECK(result.ranked[0].ranked == std::vector<uint32_t>{3, 0});
  CHECK(result.ranked[2].ranked == std::vector<uint32_t>{0, 2});
  CHECK(result.ranked[2].scores == std::vector<float>{1.5f, 1});
}

TEST_CASE("evaluation: scores that are missing, unordered or out of range do not count") {
  Adjusted run;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& wrong : {std::vector<float>{},
                                          {1, 1, 1},
                                          {1, 1.5f, 1, 1, 1, 1},
                                          {1e30f, 1, 1, 1, 1, 1},
                                          {1, 1, 1, 1, 1, -1e30f},
                                          {nan, 1, 1, 1, 1, 1}}) {
    run.pass.BeginEvaluation(run.run, EvaluationSet::kTest, InversePropensities(), 0,
                             {run.run.label_logs, 0.3f});
    CHECK_FALSE(run.Answer(wrong));
    run.pass.Stop();
  }
  run.pass.BeginEvaluation(run.run, EvaluationSet::kTest, InversePropensities());
  CHECK(run.Answer({}));
  CHECK(run.top_k == kMaxMetricK);
}

TEST_CASE("evaluation: more labels than were asked for do not count") {
  Adjusted run;
  run.pass.BeginEvaluation(run.run, EvaluationSet::kTest, InversePropensities());
  run.extra = {4, 5, 6, 7};
  CHECK_FALSE(run.Answer({}));
  run.pass.Stop();
  run.pass.BeginEvaluation(run.run, EvaluationSet::kTest, InversePropensities());
  run.extra = {4, 5, 6};
  CHECK(run.Answer({}));
}

}  // namespace dslide::evaluation_test
