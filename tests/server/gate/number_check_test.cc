#include "server/gate/number_check.h"

#include <algorithm>
#include <functional>

#include "tests/server/support/part_fixture.h"

namespace dslide::number_check_test {
namespace {

constexpr BatchId kBatch{0, 1, 2};

struct Fixture : PartFixture {
  NumberCheck check;

  std::string Why(const Body& request, Incarnation worker = kWorker) {
    return check.WhyRefused(worker, request, seat, &out);
  }
  // Refused at once as what no honest worker sends.
  void RefusesAsOffence(const Body& request, const std::string& why) {
    CHECK(Why(request).starts_with(why));
    const auto offences = out.TakeOffences();
    REQUIRE(offences.size() == 1);
    CHECK(offences[0].worker == kWorker.value);
    CHECK(offences[0].reason.starts_with(why));
  }
  // A worker with a key of its own.
  static Incarnation Another(uint64_t number) { return {(100 + number) << 32}; }
  static EmbedRequest Embed(std::vector<uint32_t> ids, std::vector<float> values,
                            BatchId batch = kBatch) {
    EmbedRequest embed{batch, true, {}};
    embed.features.ids = std::move(ids);
    embed.features.values = std::move(values);
    embed.features.EndRow();
    return embed;
  }
  static ActiveQuery Query(std::vector<float> hidden = {0, 1, 2, 3}) {
    ActiveQuery query;
    query.batch = kBatch;
    query.hidden = Matrix(1, 4);
    query.hidden.data = std::move(hidden);
    query.labels.ids = {3, 7};
    query.labels.EndRow();
    query.label_totals = {2};
    return query;
  }
  static EmbedPush Push(float x, BatchId batch = kBatch) {
    EmbedPush push{batch, Matrix(1, 4), {}};
    push.gradient.data = {x, 0, 0, 0};
    return push;
  }
};

TEST_CASE_FIXTURE(Fixture, "features are plausible") {
  CHECK(Why(Embed({1, 2, 30}, {62, -1e9f, 1})).empty());
  CHECK(Why(Embed({2, 1, 30}, {1, 1, 1})).empty());  // in any order
  RefusesAsOffence(Embed({1, 2, 30}, {1, 3e38f, 1}), "EmbedRequest: a feature's value");
  RefusesAsOffence(Embed({2, 1, 2}, {1, 1, 1}), "EmbedRequest: a feature is there twice");
}

TEST_CASE_FIXTURE(Fixture, "activations, labels and weights are plausible") {
  CHECK(Why(Query()).empty());
  RefusesAsOffence(Query({0, -1, 0, 0}), "ActiveQuery: hidden has a negative number");
  RefusesAsOffence(Query({0, 3e38f, 0, 0}), "ActiveQuery: hidden has numbers");
  seat.config.model.activation = Activation::kLinear;
  CHECK(Why(Query({0, -1, 0, 0})).empty());
  RefusesAsOffence(Query({0, -3e38f, 0, 0}), "ActiveQuery: hidden has numbers");
  seat.config.model.activation = Activation::kRelu;
  ActiveQuery query = Query();
  query.labels.ids = {7, 7};
  RefusesAsOffence(query, "ActiveQuery: a label is there twice");
  query = Query();
  query.label_totals = {1};
  RefusesAsOffence(query, "ActiveQuery: more labels than");
  query.label_totals = {1000};
  RefusesAsOffence(query, "ActiveQuery: label_totals is more");
  query = Query();
  query.weights = {1e6f};
  CHECK(Why(query).empty());
  query.weights = {3e38f};
  RefusesAsOffence(query, "ActiveQuery: a weight is above");
  TopKRequest top{Matrix(1, 4), 3, {}, {}};
  CHECK(Why(top).empty());
  top.hidden.data[2] = 3e38f;
  RefusesAsOffence(top, "TopKRequest: hidden");
}

TEST_CASE_FIXTURE(Fixture, "the normaliser holds the server's own part") {
  CHECK(Why(Query()).empty());
  ActiveReply reply;
  reply.max = {5};
  check.NoteReply(kWorker, kBatch, reply);
  CHECK(Why(GradientPush{kBatch, {5}}).empty());
  CHECK(Why(GradientPush{kBatch, {4.995f}}).empty());  // rounded
  CHECK(Why(GradientPush{kBatch, {80}}).empty());
  RefusesAsOffence(GradientPush{kBatch, {4.9f}}, "GradientPush: log_normaliser");
  RefusesAsOffence(GradientPush{kBatch, {3e38f}}, "GradientPush: log_normaliser");
  // Where nothing was scored, 0 is sent.
  reply.max = {-std::numeric_limits<float>::infinity()};
  check.NoteReply(kWorker, kBatch, reply);
  CHECK(Why(GradientPush{kBatch, {0}}).empty());
  // The sigmoid loss has no normaliser.
  seat.config.model.loss = Loss::kSigmoid;
  CHECK(Why(GradientPush{kBatch, {-1000}}).empty());
}

TEST_CASE_FIXTURE(Fixture, "a gradient far above those of others is refused before it is used") {
  for (uint32_t n = 0; n < 40; ++n) {
    CHECK(Why(Push(0.01f, {0, 0, n}), Another(n % 3)).empty());
  }
  CHECK(Why(Push(1e17f)).starts_with("EmbedPush: the gradient: 1e+17 is far above"));
  CHECK(out.TakeOffences().empty());  // its samples might be so
  CHECK(Why(Push(0.02f), Another(0)).empty());
  const auto offences = out.TakeOffences();
  REQUIRE(offences.size() == 1);
  CHECK(offences[0].worker == kWorker.value);
  RefusesAsOffence(Push(3e38f), "EmbedPush: the gradient has numbers");
}

TEST_CASE_FIXTURE(Fixture, "a small batch is not far above others, a heavy weight is") {
  EmbedPush whole;
  whole.gradient = Matrix(512, 4);
  for (uint32_t i = 0; i < 512; ++i) *whole.gradient.row(i) = 1.0f / 512;
  for (uint32_t n = 0; n < 40; ++n) {
    whole.batch.index = n;
    const Incarnation sender = Another(n % 3);
    CHECK(Why(whole, sender).empty());
    ActiveQuery query = Query();
    query.batch = whole.batch;
    CHECK(Why(query, sender).empty());
  }
  CHECK(Why(Push(1)).empty());  // one sample: its gradient is not divided
  ActiveQuery query = Query();
  query.weights = {3};
  CHECK(Why(query).empty());
  query.batch.index++;
  query.weights = {1e5f};
  CHECK(Why(query).starts_with("ActiveQuery: weights: 100000 is far above"));
}

// Gradients of dense layers are means over the samples: of 512 independent ones of length 1 some
// 1 / sqrt(512), of one sample 1.
TEST_CASE_FIXTURE(Fixture, "dense layers: the last batch of an epoch may have few samples") {
  const auto push = [](uint32_t samples, float mean, BatchId batch) {
    EmbedPush sent{batch, Matrix(samples, 4), {}, LayerRows{{31}, Matrix(1, 4)}};
    sent.dense->values.data = {mean, 0, 0, 0};
    return sent;
  };
  for (uint32_t n = 0; n < 40; ++n) {
    CHECK(Why(push(512, 0.044f, {0, 0, n}), Another(n % 3)).empty());
  }
  CHECK(Why(push(1, 1, {0, 0, 40})).empty());
  CHECK(Why(push(1, 5, {0, 0, 41})).starts_with("EmbedPush: the gradients of dense layers: 5 is"));
  CHECK(Why(push(512, 1, {0, 0, 42})).starts_with("EmbedPush: the gradients of dense layers: 22"));
}

TEST_CASE_FIXTURE(Fixture, "a push goes on without a next batch that is refused") {
  EmbedPush push = Push(1);
  push.next = Embed({1}, {2});
  Body good = push;
  check.TakeOutNext(kWorker, &good, &out);
  CHECK(std::get<EmbedPush>(good).next);
  push.next = Embed({1, 1}, {2, 2});
  Body bad = push;
  check.TakeOutNext(kWorker, &bad, &out);
  CHECK_FALSE(std::get<EmbedPush>(bad).next);
  CHECK(out.TakeOffences().size() == 1);
}

TEST_CASE_FIXTURE(Fixture,
                  "a reply out of range: an update's is the model's, a question's may lie") {
  CHECK(check.IsDiverged(Another(1), GradientPush{kBatch, {0}}));
  CHECK(check.IsDiverged(Another(1), Push(1)));
  for (const Body& question : {Body(Embed({1}, {1}, {0, 1, 9})), Body(Query())}) {
    CHECK_FALSE(check.IsDiverged(Another(1), question));
    check.NoteInRange(Another(2), question, &out);
    const auto lies = out.TakeOffences();
    REQUIRE(lies.size() == 1);
    CHECK(lies[0].worker == Another(1).value);
    CHECK_FALSE(check.IsDiverged(Another(1), question));
    CHECK(check.IsDiverged(Another(2), question));
  }
  EmbedPush push = Push(1);
  push.next = Embed({1}, {1}, {0, 1, 3});
  CHECK_FALSE(check.IsDiverged(Another(1), push));
  CHECK(check.IsDiverged(Another(2), push.next.value()));
}

TEST_CASE_FIXTURE(Fixture, "a diverged model is found although batches begin well") {
  const ActiveQuery query = Query();
  const auto begin = [&](Incarnation worker) {
    check.NoteInRange(worker, Embed({1}, {1}), &out);
    return check.IsDiverged(worker, query);
  };
  SUBCASE("by the only worker") {
    for (uint32_t i = 1; i < NormBound::kTries; ++i) CHECK_FALSE(begin(Another(1)));
    CHECK(begin(Another(1)));
  }
  SUBCASE("by two") {
    CHECK_FALSE(begin(Another(1)));
    CHECK(begin(Another(2)));
  }
  CHECK(out.TakeOffences().empty());
}

TEST_CASE_FIXTURE(Fixture, "one that repeats itself beside others does not make a model diverge") {
  check.NoteInRange(Another(2), Query(), &out);
  for (uint32_t i = 0; i < 100; ++i) {
    ActiveQuery query = Query();
    query.batch.index = i / 5;
    CHECK_FALSE(check.IsDiverged(Another(1), query));
  }
}

TEST_CASE_FIXTURE(Fixture, "what is known of open batches is bounded") {
  ActiveReply reply;
  reply.max.resize(65536);
  for (uint32_t n = 0; n < 5000; ++n) check.NoteReply({n}, kBatch, reply);
  check.DropWorker({4999});
  CHECK(Why(GradientPush{kBatch, {-10}}, {4999}).empty());
  CHECK_FALSE(Why(GradientPush{kBatch, {-10}}, {4998}).empty());
  CHECK(Why(GradientPush{kBatch, {-10}}, {1}).empty());  // forgotten
}

}  // namespace
}  // namespace dslide::number_check_test
