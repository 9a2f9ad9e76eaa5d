// What an executor refuses, and what it does with batches that are given up.
#include "server/executor/executor.h"

#include <doctest/doctest.h>

#include "common/math/kernels.h"
#include "common/run/combine.h"

#include "tests/server/support/test_batches.h"

namespace dslide::executor_test {
namespace {

constexpr Incarnation kWorker{5};
constexpr uint32_t kFeatures = 20, kLabels = 15, kHidden = 4;

Config DrawingConfig() {
  Config config = SmallConfig(kFeatures, kLabels, kHidden);
  config.model.active = ActiveSet::kMass;
  config.model.negatives = 5;
  config.train.unit_batches = 1024;
  return config;
}

struct Fixture {
  Config config = DrawingConfig();
  Executor executor{config, 10'000'000, AllSlots(config), Purpose::kTraining, BestKernels()};

  Fixture() { executor.Initialise(); }

  Body Ask(Body request, Incarnation sender = kWorker) { return executor.Handle(sender, request); }
  ErrorCode Refusal(Body request, Incarnation sender = kWorker) {
    const Body reply = Ask(std::move(request), sender);
    REQUIRE(std::holds_alternative<ErrorReply>(reply));
    CHECK_FALSE(std::get<ErrorReply>(reply).text.empty());
    return std::get<ErrorReply>(reply).code;
  }
  static EmbedRequest Embed(uint32_t index = 0) {
    EmbedRequest request{{0, 0, index}, true, {}};
    request.features.ids = {1, kFeatures, 2, 7, kFeatures};
    request.features.values = {1, 1, 0.5f, 2, 1};
    request.features.offsets = {0, 2, 5};
    return request;
  }
  static ActiveQuery Query(uint32_t index = 0) {
    ActiveQuery query;
    query.batch = {0, 0, index};
    query.hidden = Matrix(2, kHidden);
    query.hidden.data = {1, 0, 2, 0, 0.5f, 0.5f, 0, 1};
    query.labels.ids = {3, 4, 14};
    query.labels.offsets = {0, 2, 3};
    query.label_totals = {2, 1};
    return query;
  }
  static GradientPush Push(uint32_t index = 0) { return {{0, 0, index}, {2.0f, 2.0f}}; }
  static EmbedPush PushEmbedding(uint32_t index = 0) { return {{0, 0, index}, Matrix(2, kHidden)}; }
};

TEST_CASE_FIXTURE(Fixture, "a batch goes through its four requests, each once and in order") {
  CHECK(Refusal(Query()) == ErrorCode::kUnknownBatch);
  CHECK(Refusal(Push()) == ErrorCode::kUnknownBatch);
  CHECK(Refusal(PushEmbedding()) == ErrorCode::kUnknownBatch);
  CHECK(std::holds_alternative<EmbedReply>(Ask(Embed())));
  CHECK(Refusal(Push()) == ErrorCode::kUnknownBatch);
  CHECK(std::holds_alternative<ActiveReply>(Ask(Query())));
  CHECK(Refusal(Query()) == ErrorCode::kUnknownBatch);
  CHECK(Refusal(PushEmbedding()) == ErrorCode::kUnknownBatch);
  CHECK(std::holds_alternative<GradientReply>(Ask(Push())));
  CHECK(Refusal(Push()) == ErrorCode::kUnknownBatch);
  CHECK(executor.batches_in_flight() == 1);
  CHECK(std::holds_alternative<Ack>(Ask(PushEmbedding())));
  CHECK(executor.batches_in_flight() == 0);
  CHECK(Refusal(PushEmbedding()) == ErrorCode::kUnknownBatch);
}

TEST_CASE_FIXTURE(Fixture, "embeddings of unknown features are refused") {
  EmbedRequest bad = Embed();
  bad.features.ids[0] = kFeatures + 1;
  CHECK(Refusal(bad) == ErrorCode::kRefused);
  bad = Embed();
  bad.features.values.clear();
  CHECK(Refusal(bad) == ErrorCode::kRefused);
  CHECK(executor.batches_in_flight() == 0);
}

TEST_CASE_FIXTURE(Fixture, "queries of the wrong shape or with unknown labels are refused") {
  Ask(Embed());
  ActiveQuery bad = Query();
  bad.hidden = Matrix(3, kHidden);
  CHECK(Refusal(bad) == ErrorCode::kRefused);
  bad.hidden = Matrix(2, kHidden + 1);
  CHECK(Refusal(bad) == ErrorCode::kRefused);
  bad = Query();
  bad.labels.EndRow();
  CHECK(Refusal(bad) == ErrorCode::kRefused);
  bad = Query();
  bad.label_totals.pop_back();
  CHECK(Refusal(bad) == ErrorCode::kRefused);
  bad = Query();
  bad.label_totals[0] = 1;
  CHECK(Refusal(bad) == ErrorCode::kRefused);
  bad = Query();
  bad.labels.ids[2] = kLabels;
  CHECK(Refusal(bad) == ErrorCode::kRefused);
  CHECK(std::holds_alternative<ActiveReply>(Ask(Query())));  // it is still there
}

TEST_CASE_FIXTURE(Fixture, "gradients of the wrong shape are refused and change nothing") {
  Ask(Embed());
  Ask(Query());
  GradientPush bad = Push();
  bad.log_normaliser.push_back(0);
  CHECK(Refusal(bad) == ErrorCode::kRefused);
  CHECK(std::holds_alternative<GradientReply>(Ask(Push())));
  EmbedPush wrong = PushEmbedding();
  wrong.gradient = Matrix(2, kHidden - 1);
  CHECK(Refusal(wrong) == ErrorCode::kRefused);
  wrong.gradient = Matrix(1, kHidden);
  CHECK(Refusal(wrong) == ErrorCode::kRefused);
  CHECK(std::holds_alternative<Ack>(Ask(PushEmbedding())));
}

TEST_CASE_FIXTURE(Fixture, "top-k requests that do not fit are refused") {
  TopKRequest request{Matrix(2, kHidden), 3, Search::kExact, {}};
  CHECK(std::get<TopKReply>(Ask(request)).ids.size() == 6);
  request.k = 100;
  CHECK(std::get<TopKReply>(Ask(request)).ids.size() == 2 * kLabels);
  request.k = 0;
  CHECK(std::get<TopKReply>(Ask(request)).ids.empty());
  request.search = Search::kLsh;
  CHECK(Refusal(request) == ErrorCode::kRefused);
  request.search = Search::kExact;
  request.excluded.EndRow();
  CHECK(Refusal(request) == ErrorCode::kRefused);
  request.excluded = {};
  request.hidden = Matrix(2, kHidden + 1);
  CHECK(Refusal(request) == ErrorCode::kRefused);
}

TEST_CASE_FIXTURE(Fixture, "messages for others are refused") {
  CHECK(Refusal(Join{}) == ErrorCode::kRefused);
  CHECK(Refusal(Shutdown{}) == ErrorCode::kRefused);
  CHECK(Refusal(EmbedReply{}) == ErrorCode::kRefused);
}

TEST_CASE_FIXTURE(Fixture, "dropping a worker's batches leaves the others'") {
  Ask(Embed(0));
  Ask(Embed(1));
  Ask(Embed(0), {6});
  CHECK(std::holds_alternative<Ack>(Ask(DropBatches{kWorker})));
  CHECK(executor.batches_in_flight() == 1);
  CHECK(Refusal(Query(0)) == ErrorCode::kUnknownBatch);
  CHECK(std::holds_alternative<ActiveReply>(Ask(Query(0), {6})));
}

TEST_CASE_FIXTURE(Fixture, "requests that ask for much memory are refused") {
  TopKRequest request;
  request.hidden = Matrix(1, config.model.hidden);
  request.k = kMaxTopK + 1;
  CHECK(Refusal(request) == ErrorCode::kRefused);
  EmbedRequest many;
  many.features.offsets.assign(kMaxBatchSamples + 1, 0);
  CHECK(Refusal(many) == ErrorCode::kRefused);
}

TEST_CASE("embedding without training keeps nothing, an executor for inference does not train") {
  const Config config = DrawingConfig();
  Executor executor(config, 100, AllSlots(config), Purpose::kInference, BestKernels());
  executor.Initialise();
  EmbedRequest request = Fixture::Embed();
  CHECK(std::holds_alternative<ErrorReply>(executor.Handle(kWorker, request)));
  request.training = false;
  const Body reply = executor.Handle(kWorker, request);
  CHECK(executor.batches_in_flight() == 0);
  const Matrix partial = InFloats(std::get<EmbedReply>(reply).partial);
  const float* row = executor.input().layer().weights(executor.input().layer().map().Local(1));
  CHECK(partial.row(0)[2] == row[2]);  // 1 * E_1 + 1 * bias, which is 0 at first
}

}  // namespace
}  // namespace dslide::executor_test
