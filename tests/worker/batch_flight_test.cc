#include "worker/batch_flight.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/config/limits.h"
#include "common/run/combine.h"
#include "common/run/slot_plan.h"
#include "tests/support/results.h"

namespace dslide::batch_flight_test {
namespace {

constexpr uint32_t kFeatures = 12, kLabels = 8, kHidden = 4;

Config FlightConfig() {
  Config config;
  config.model.hidden = kHidden;
  config.train.dropout_hidden = 0.0f;
  config.cluster.slots = 4;
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

// Slots 0, 1 live on server 0; slots 2, 3 on server 1.
const Plan kPlan = EqualPlan(1, 4, {{"a", "a"}, {"b", "b"}});

LeaseBatch Batch() {
  LeaseBatch batch;
  batch.index = 2;
  batch.features.ids = {0, 3, 6, 1, 2, 5};
  batch.features.values = {1, 2, 3, 4, 5, 6};
  batch.features.offsets = {0, 3, 3, 6};
  batch.labels.ids = {0, 2, 7};
  batch.labels.offsets = {0, 2, 2, 3};
  return batch;
}

LeaseGrant Lease(LeaseKind kind = LeaseKind::kTrain) { return {9, kind, 1, 3, 5, {}}; }

Matrix Filled(std::initializer_list<float> values) {
  Matrix m(3, kHidden);
  std::copy(values.begin(), values.end(), m.data.begin());
  return m;
}

ActiveReply Statistics(float max, float sum_exp, float target) {
  ActiveReply reply;
  reply.max.assign(3, max);
  reply.sum_exp.assign(3, sum_exp);
  reply.target_logit.assign(3, target);
  reply.active.assign(3, 2);
  reply.active_rows = 4;
  return reply;
}

// Gives both servers' replies, the second one first; the stage is complete after the last.
void TakeBoth(BatchFlight* flight, Body a, Body b) {
  CHECK_FALSE(Ok(flight->Take(1, std::move(b))));
  CHECK(Ok(flight->Take(0, std::move(a))));
}

TEST_CASE("values are divided by train.normalize, in training and in evaluation; the bias is not") {
  Config config = FlightConfig();
  config.train.normalize = 4.0f;
  for (const LeaseKind kind : {LeaseKind::kTrain, LeaseKind::kEvaluate}) {
    BatchFlight flight(config, kPlan, Lease(kind), Batch(), 5);
    CHECK(std::get<EmbedRequest>(flight.RequestFor(0)).features.values ==
          std::vector<float>{0.25f, 1, 1, 1, 1.5f, 1});
    CHECK(std::get<EmbedRequest>(flight.RequestFor(1)).features.values ==
          std::vector<float>{0.5f, 0.75f, 1.25f});
  }
}

TEST_CASE("features and labels go to their owners, the hidden bias in every sample") {
  const Config config = FlightConfig();
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
  const auto a = std::get<EmbedRequest>(flight.RequestFor(0));
  const auto b = std::get<EmbedRequest>(flight.RequestFor(1));
  CHECK(a.batch == BatchId{1, 3, 2});
  CHECK(a.training);
  // Feature 12, the bias, is in slot 0.
  CHECK(a.features.ids == std::vector<uint32_t>{0, 12, 12, 1, 5, 12});
  CHECK(a.features.values == std::vector<float>{1, 1, 1, 4, 6, 1});
  CHECK(a.features.offsets == std::vector<uint32_t>{0, 2, 3, 6});
  CHECK(b.features.ids == std::vector<uint32_t>{3, 6, 2});
  CHECK(b.features.offsets == std::vector<uint32_t>{0, 2, 2, 3});
  TakeBoth(&flight, EmbedReply{Filled({})}, EmbedReply{Filled({})});
  const auto query_a = std::get<ActiveQuery>(flight.RequestFor(0));
  const auto query_b = std::get<ActiveQuery>(flight.RequestFor(1));
  CHECK(query_a.labels.ids == std::vector<uint32_t>{0});
  CHECK(query_b.labels.ids == std::vector<uint32_t>{2, 7});
  CHECK(query_b.labels.offsets == std::vector<uint32_t>{0, 1, 1, 2});
  CHECK(query_a.label_totals == std::vector<uint32_t>{2, 0, 1});
  CHECK(query_b.label_totals == query_a.label_totals);
}

TEST_CASE("a training flight adds partials, applies relu, merges normalisers and masks") {
  const Config config = FlightConfig();
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
  TakeBoth(&flight, EmbedReply{Filled({1, -2, 3, 0.5f})}, EmbedReply{Filled({1, 1, -4, 0.25f})});
  CHECK(flight.stage() == BatchFlight::Stage::kQuery);
  const auto query = std::get<ActiveQuery>(flight.RequestFor(0));
  CHECK(query.hidden == Filled({2, 0, 0, 0.75f}));
  CHECK(query.probe_samples == 0);

  TakeBoth(&flight, Statistics(1, 2, 0.5f), Statistics(3, 1.5f, 0.25f));
  const auto push = std::get<GradientPush>(flight.RequestFor(1));
  const double normaliser = std::log(2 * std::exp(1.0) + 1.5 * std::exp(3.0));
  for (const float z : push.log_normaliser) CHECK(z == doctest::Approx(normaliser));

  TakeBoth(&flight, GradientReply{Filled({1, 1, 1, 1})}, GradientReply{Filled({2, 2, 2, 2})});
  const auto gradient = std::get<EmbedPush>(flight.RequestFor(0)).gradient;
  CHECK(gradient == Filled({3, 0, 0, 3}));
  TakeBoth(&flight, Ack{}, Ack{});
  REQUIRE(flight.done());
  const BatchDone& done = flight.report();
  CHECK(done.lease == 9);
  CHECK(done.samples == 3);
  CHECK(done.loss_sum == doctest::Approx(2 * (normaliser - 0.75)));  // one has no labels
  CHECK(done.active_neurons_sum == 3 * 4);
  CHECK(done.active_rows == 8);
  CHECK(done.probed == 0);
}

TEST_CASE("a stage ends with the reply of the last server, not with a second one of the first") {
  const Config config = FlightConfig();
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
  for (const uint32_t server : {1, 1, 1}) {
    const Result<bool> taken = flight.Take(server, EmbedReply{Filled({})});
    REQUIRE(taken.ok());
    CHECK_FALSE(*taken);
  }
  CHECK(*flight.Take(0, EmbedReply{Filled({})}));
}

TEST_CASE("a sample that nobody scored has normaliser 0 on the wire") {
  const Config config = FlightConfig();
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
  TakeBoth(&flight, EmbedReply{Filled({})}, EmbedReply{Filled({})});
  ActiveReply none = Statistics(-std::numeric_limits<float>::infinity(), 0, 0);
  TakeBoth(&flight, none, none);
  CHECK(std::get<GradientPush>(flight.RequestFor(0)).log_normaliser == std::vector<float>{0, 0, 0});
}

TEST_CASE("sigmoid losses are the servers' sums") {
  Config config = FlightConfig();
  config.model.loss = Loss::kSigmoid;
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
  TakeBoth(&flight, EmbedReply{Filled({})}, EmbedReply{Filled({})});
  CHECK_FALSE(flight.Take(0, Statistics(0, 1, 0)).ok());  // without losses
  ActiveReply a = Statistics(0, 1, 0), b = a;
  a.loss = {1, 2, 3};
  b.loss = {0.5f, 0.5f, 0.5f};
  TakeBoth(&flight, a, b);
  TakeBoth(&flight, GradientReply{Filled({})}, GradientReply{Filled({})});
  TakeBoth(&flight, Ack{}, Ack{});
  CHECK(flight.report().loss_sum == doctest::Approx(7.5));
}

TEST_CASE("recall is measured every so many batches") {
  const Config config = FlightConfig();
  BatchFlight flight(config, kPlan, Lease(), Batch(), 2 * kProbedBatches);
  TakeBoth(&flight, EmbedReply{Filled({})}, EmbedReply{Filled({})});
  CHECK(std::get<ActiveQuery>(flight.RequestFor(0)).probe_samples == kProbedSamples);
  ActiveReply a = Statistics(0, 1, 0), b = a;
  a.probes = {{{0}, {2.0f}, {1}, {1}}};
  b.probes = {{{2, 3, 7}, {3.0f, 1.0f, 0.0f}, {1, 1, 0}, {0, 0, 0}}};
  TakeBoth(&flight, a, b);
  TakeBoth(&flight, GradientReply{Filled({})}, GradientReply{Filled({})});
  TakeBoth(&flight, Ack{}, Ack{});
  CHECK(flight.report().probed == 1);
  CHECK(flight.report().recall_set == doctest::Approx(0.75));
  CHECK(flight.report().recall_hash == doctest::Approx(0.25));
  CHECK(flight.report().recall_uniform == doctest::Approx(8.0 / kLabels));
  CHECK(flight.report().tail_error == 0);
}

TEST_CASE("the error of the draws is measured in every batch") {
  Config config = FlightConfig();
  config.model.active = ActiveSet::kMass;
  BatchFlight flight(config, kPlan, Lease(), Batch(), 21);
  TakeBoth(&flight, EmbedReply{Filled({})}, EmbedReply{Filled({})});
  CHECK(std::get<ActiveQuery>(flight.RequestFor(0)).probe_samples == kProbedSamples);
  // Sums of 1 and 3 whose variances are 0.25 and 0.09 of their squares.
  ActiveReply a = Statistics(0, 1, 0), b = Statistics(0, 3, 0);
  a.tail_variance = {0.25f};
  b.tail_variance = {0.09f};
  TakeBoth(&flight, a, b);
  TakeBoth(&flight, GradientReply{Filled({})}, GradientReply{Filled({})});
  TakeBoth(&flight, Ack{}, Ack{});
  CHECK(flight.report().probed == 1);
  CHECK(flight.report().tail_error == doctest::Approx(std::sqrt(0.25 + 0.81) / 4));
}

TEST_CASE("weights go to the servers with neurons, multiply the loss, and 0 leaves a sample out") {
  LeaseBatch batch = Batch();
  batch.weights = {0.0f, 1.0f, 2.5f};
  const Config config = FlightConfig();
  BatchFlight flight(config, kPlan, Lease(), batch, 2);
  const SparseRows features = std::get<EmbedRequest>(flight.RequestFor(0)).features;
  CHECK(features.rows() == 3);
  CHECK(features.Ids(0).empty());
  const SparseRows of_other = std::get<EmbedRequest>(flight.RequestFor(1)).features;
  CHECK(of_other.Ids(0).empty());
  CHECK(features.Ids(1).size() + of_other.Ids(1).size() == 1);  // the hidden bias
  TakeBoth(&flight, EmbedReply{Filled({})}, EmbedReply{Filled({})});
  for (const uint32_t server : {0u, 1u}) {
    const auto query = std::get<ActiveQuery>(flight.RequestFor(server));
    CHECK(query.weights == batch.weights);
    CHECK(query.label_totals == std::vector<uint32_t>{0, 0, 1});
    CHECK(query.labels.Ids(0).empty());
  }
  // Two sums of 1: the normaliser is log 2.
  TakeBoth(&flight, Statistics(0, 1, 0.25f), Statistics(0, 1, 0.5f));
  TakeBoth(&flight, GradientReply{Filled({})}, GradientReply{Filled({})});
  TakeBoth(&flight, Ack{}, Ack{});
  CHECK(flight.report().loss_sum == doctest::Approx(2.5 * (std::log(2.0) - 0.75)));
  CHECK(flight.report().samples == 3);
}

TEST_CASE("a flight scales the hidden units that dropout left") {
  Config config = FlightConfig();
  config.train.dropout_hidden = 0.25f;
  LeaseBatch big;
  for (uint32_t i = 0; i < 200; ++i) {
    for (uint32_t f = 0; f < kFeatures; ++f) {
      big.features.ids.push_back(f);
      big.features.values.push_back(1.0f);
    }
    big.features.EndRow();
    big.labels.EndRow();
  }
  BatchFlight a(config, kPlan, Lease(), big, 5);
  Matrix ones(200, kHidden);
  std::fill(ones.data.begin(), ones.data.end(), 1.0f);
  TakeBoth(&a, EmbedReply{ones}, EmbedReply{Matrix(200, kHidden)});
  const Matrix hidden = std::get<ActiveQuery>(a.RequestFor(0)).hidden;
  double left = 0;
  for (const float h : hidden.data) {
    CHECK((h == 0.0f || h == doctest::Approx(4.0 / 3)));
    left += h != 0.0f;
  }
  CHECK(left == 800);  // those that the servers left
}

TEST_CASE("an evaluation ranks labels, without a sample's own features if told so") {
  Config config = FlightConfig();
  config.train.exclude_own_features = true;
  BatchFlight flight(config, kPlan, Lease(LeaseKind::kEvaluate), Batch(), 0);
  CHECK_FALSE(std::get<EmbedRequest>(flight.RequestFor(0)).training);
  TakeBoth(&flight, EmbedReply{Filled({})}, EmbedReply{Filled({})});
  const auto request = std::get<TopKRequest>(flight.RequestFor(1));
  CHECK(request.k == 5);
  CHECK(request.search == Search::kExact);
  CHECK(request.recall == 0.99f);
  CHECK(request.excluded.ids == Batch().features.ids);
  TakeBoth(&flight, TopKReply{{0, 1, 1, 1}, {0}, {1.0f}}, TopKReply{{0, 1, 2, 2}, {3, 2}, {2, 5}});
  REQUIRE(flight.done());
  CHECK(flight.report().predictions.ids == std::vector<uint32_t>{3, 0, 2});
  CHECK(flight.report().predictions.offsets == std::vector<uint32_t>{0, 2, 3, 3});
}

TEST_CASE("a stage asks the servers that have rows of its layer") {
  Config config = FlightConfig();
  config.cluster.input_slots = 1;  // slot 3; the neurons are in slots 0 to 2
  const Plan plan = EqualPlan(1, 4, {{"a", "a"}, {"b", "b"}, {"c", "c"}, {"d", "d"}});
  const auto asked = [](const BatchFlight& flight) {
    std::vector<bool> asks;
    for (uint32_t s = 0; s < 4; ++s) asks.push_back(flight.Asks(s));
    return asks;
  };
  const std::vector<bool> of_input{false, false, false, true}, of_neurons{true, true, true, false};
  BatchFlight flight(config, plan, Lease(), Batch(), 5);
  CHECK(asked(flight) == of_input);
  const auto embed = std::get<EmbedRequest>(flight.RequestFor(3));
  CHECK(embed.alone);
  CHECK(embed.features.ids.size() == 9);
  REQUIRE(*flight.Take(3, EmbedReply{Filled({1, -2, 3, 0.5f})}));
  CHECK(asked(flight) == of_neurons);
  const auto query = std::get<ActiveQuery>(flight.RequestFor(1));
  CHECK(query.alone);
  CHECK_FALSE(query.finish);
  CHECK(query.labels.ids == std::vector<uint32_t>{7});  // 7 mod 3
  CHECK(std::get<ActiveQuery>(flight.RequestFor(0)).labels.ids == std::vector<uint32_t>{0});
  for (const uint32_t s : {2u, 0u}) CHECK_FALSE(*flight.Take(s, Statistics(1, 2, 0.5f)));
  REQUIRE(*flight.Take(1, Statistics(1, 2, 0.5f)));
  CHECK(asked(flight) == of_neurons);
  for (const uint32_t s : {2u, 0u}) CHECK_FALSE(*flight.Take(s, GradientReply{Filled({1, 1})}));
  REQUIRE(*flight.Take(1, GradientReply{Filled({4, 4})}));
  CHECK(asked(flight) == of_input);
  CHECK(std::get<EmbedPush>(flight.RequestFor(3)).gradient == Filled({6, 0}));
  REQUIRE(*flight.Take(3, Ack{}));
  CHECK(flight.done());
}

TEST_CASE("the one server that has all neurons finishes alone") {
  Config config = FlightConfig();
  config.cluster.input_slots = 2;
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
  REQUIRE(*flight.Take(1, EmbedReply{Filled({1, -2, 3, 0.5f})}));
  CHECK(std::get<ActiveQuery>(flight.RequestFor(0)).finish);
  GradientReply reply{Filled({1, 1, 1, 1})};
  reply.active = Statistics(1, 2, 0.5f);
  REQUIRE(*flight.Take(0, reply));
  CHECK(flight.stage() == BatchFlight::Stage::kEmbedPush);
  CHECK(std::get<EmbedPush>(flight.RequestFor(1)).gradient == Filled({1, 0, 1, 1}));
}

TEST_CASE("a server that is greeted must answer before the batch goes on, and adds nothing") {
  Config config = FlightConfig();
  config.cluster.input_slots = 2;
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5, {true, true});
  const auto greeting = std::get<EmbedRequest>(flight.RequestFor(0));
  CHECK_FALSE(greeting.training);
  CHECK(greeting.features.rows() == 1);
  CHECK(greeting.features.ids.empty());
  CHECK_FALSE(*flight.Take(1, EmbedReply{Filled({1, -2, 3, 0.5f})}));
  CHECK_FALSE(flight.Take(0, EmbedReply{Filled({})}).ok());  // of three samples
  REQUIRE(*flight.Take(0, EmbedReply{Matrix(1, kHidden)}));
  CHECK(std::get<ActiveQuery>(flight.RequestFor(0)).hidden == Filled({1, 0, 3, 0.5f}));
}

TEST_CASE("replies that do not fit are errors") {
  const Config config = FlightConfig();
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
  CHECK_FALSE(flight.Take(0, EmbedReply{Matrix(2, kHidden)}).ok());
  CHECK_FALSE(flight.Take(0, EmbedReply{Matrix(3, kHidden + 1)}).ok());
  CHECK_FALSE(flight.Take(0, Ack{}).ok());
  TakeBoth(&flight, EmbedReply{Filled({})}, EmbedReply{Filled({})});
  ActiveReply with_loss = Statistics(0, 1, 0);
  with_loss.loss = {1, 2, 3};
  CHECK_FALSE(flight.Take(0, with_loss).ok());
  CHECK_FALSE(flight.Take(0, ActiveReply{}).ok());
  TakeBoth(&flight, Statistics(0, 1, 0), Statistics(0, 1, 0));
  CHECK_FALSE(flight.Take(0, GradientReply{Matrix(1, kHidden)}).ok());
  TakeBoth(&flight, GradientReply{Filled({})}, GradientReply{Filled({})});
  CHECK_FALSE(flight.Take(0, EmbedReply{Filled({})}).ok());
}

const Plan kOnePlan = EqualPlan(1, 4, {{"a", "a"}});

// What the only server answers to ActiveQuery: both rounds' results.
GradientReply Finished(ActiveReply active, Matrix partial) {
  return {std::move(partial), std::move(active)};
}

TEST_CASE("with one server the query takes in the push, and the gradient is masked the same") {
  const Config config = FlightConfig();
  BatchFlight flight(config, kOnePlan, Lease(), Batch(), 5);
  CHECK(std::get<EmbedRequest>(flight.RequestFor(0)).features.offsets ==
        std::vector<uint32_t>{0, 4, 5, 9});
  CHECK(*flight.Take(0, EmbedReply{Filled({2, -1, 0, 0.75f})}));
  const auto query = std::get<ActiveQuery>(flight.RequestFor(0));
  CHECK(query.finish);
  CHECK(query.hidden == Filled({2, 0, 0, 0.75f}));
  CHECK(query.labels.ids == Batch().labels.ids);
  CHECK(*flight.Take(0, Finished(Statistics(3, 1.5f, 0.75f), Filled({3, 3, 3, 3}))));
  CHECK(flight.stage() == BatchFlight::Stage::kEmbedPush);
  CHECK(std::get<EmbedPush>(flight.RequestFor(0)).gradient == Filled({3, 0, 0, 3}));
  CHECK(*flight.Take(0, Ack{}));
  REQUIRE(flight.done());
  const double normaliser = 3 + std::log(1.5);
  CHECK(flight.report().loss_sum == doctest::Approx(2 * (normaliser - 0.75)));
  CHECK(flight.report().active_neurons_sum == 3 * 2);
  CHECK(flight.report().active_rows == 4);
}

TEST_CASE(
    "with one server, too, dropout scales gradients, sigmoid losses and probes are reported") {
  Config config = FlightConfig();
  config.model.loss = Loss::kSigmoid;
  config.train.dropout_hidden = 0.5f;
  BatchFlight flight(config, kOnePlan, Lease(), Batch(), 2 * kProbedBatches);
  Matrix ones(3, kHidden);
  std::fill(ones.data.begin(), ones.data.end(), 1.0f);
  CHECK(*flight.Take(0, EmbedReply{ones}));
  const auto query = std::get<ActiveQuery>(flight.RequestFor(0));
  CHECK(query.probe_samples == kProbedSamples);
  ActiveReply active = Statistics(0, 1, 0);
  active.loss = {1, 2, 3};
  active.probes = {{{0, 2}, {2.0f, 1.0f}, {1, 0}, {1, 0}}};
  CHECK(*flight.Take(0, Finished(active, ones)));
  const auto gradient = std::get<EmbedPush>(flight.RequestFor(0)).gradient;
  for (size_t i = 0; i < gradient.data.size(); ++i) {
    CHECK(gradient.data[i] == (query.hidden.data[i] > 0 ? 2.0f : 0.0f));
  }
  CHECK(*flight.Take(0, Ack{}));
  CHECK(flight.report().loss_sum == 6);
  CHECK(flight.report().probed == 1);
  CHECK(flight.report().recall_set == doctest::Approx(0.5));
}

TEST_CASE("with one server half an answer is an error, and so is a whole one of several") {
  const Config config = FlightConfig();
  const auto at_query = [&](const Plan& plan) {
    BatchFlight flight(config, plan, Lease(), Batch(), 5);
    for (uint32_t s = 0; s < plan.servers.size(); ++s) {
      REQUIRE(flight.Take(s, EmbedReply{Filled({})}).ok());
    }
    return flight;
  };
  const ActiveReply good = Statistics(0, 1, 0);
  BatchFlight one = at_query(kOnePlan);
  CHECK_FALSE(one.Take(0, good).ok());
  CHECK_FALSE(one.Take(0, GradientReply{Filled({})}).ok());
  CHECK_FALSE(one.Take(0, Finished(good, Matrix(3, kHidden + 1))).ok());
  CHECK_FALSE(one.Take(0, Finished(ActiveReply{}, Filled({}))).ok());
  ActiveReply with_loss = good;
  with_loss.loss = {1, 2, 3};
  CHECK_FALSE(one.Take(0, Finished(with_loss, Filled({}))).ok());
  CHECK(one.Take(0, Finished(good, Filled({}))).ok());
  BatchFlight two = at_query(kPlan);
  CHECK_FALSE(std::get<ActiveQuery>(two.RequestFor(0)).finish);
  CHECK_FALSE(two.Take(0, Finished(good, Filled({}))).ok());
}

// One dense layer of kHidden units: rows 13 to 16 are its units', 17 its biases.
Config DenseConfig() {
  Config config = FlightConfig();
  config.model.dense = {kHidden};
  config.cluster.input_slots = 0;
  return config;
}

// The rows of a server: unit k takes its own number k from unit k - 1 of the layer below.
LayerRows DenseOf(uint32_t server) {
  LayerRows rows;
  for (uint32_t id = kFeatures + 1; id <= kFeatures + 1 + kHidden; ++id) {
    if (kPlan.slot_owner[id % 4] == server) rows.ids.push_back(id);
  }
  rows.values = Matrix(static_cast<uint32_t>(rows.ids.size()), kHidden);
  for (uint32_t i = 0; i < rows.ids.size(); ++i) {
    const uint32_t unit = rows.ids[i] - kFeatures - 1;
    if (unit == kHidden) {
      std::fill_n(rows.values.row(i), kHidden, 0.5f);
    } else {
      rows.values.row(i)[(unit + kHidden - 1) % kHidden] = static_cast<float>(unit);
    }
  }
  return rows;
}

TEST_CASE("dense layers: h goes through them, its gradient back, and theirs to their owners") {
  const Config config = DenseConfig();
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
  CHECK(flight.wants_dense());
  CHECK(flight.dense() == nullptr);
  CHECK(std::get<EmbedRequest>(flight.RequestFor(0)).dense);
  CHECK(std::get<EmbedRequest>(flight.RequestFor(1)).dense);
  TakeBoth(&flight, EmbedReply{Filled({1, 2, 0, 3}), DenseOf(0)},
           EmbedReply{Filled({0, 0, -1, 0}), DenseOf(1)});
  REQUIRE(flight.dense() != nullptr);
  // h_1 = 1 2 0 3; unit k has k times h_1[k - 1], and 0.5.
  Matrix hidden = Filled({0.5f, 1.5f, 4.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f});
  CHECK(std::get<ActiveQuery>(flight.RequestFor(0)).hidden == hidden);
  TakeBoth(&flight, Statistics(1, 2, 0.5f), Statistics(3, 1.5f, 0.25f));
  TakeBoth(&flight, GradientReply{Filled({1, 1, 1, 1})}, GradientReply{Filled({0, 1, 2, 3})});
  // dL/dh_2 = 1 2 3 4; h_1[k - 1] has k times that of unit k, where it is not 0.
  const auto a = std::get<EmbedPush>(flight.RequestFor(0));
  const auto b = std::get<EmbedPush>(flight.RequestFor(1));
  CHECK(a.gradient == Filled({2, 6, 0, 0}));
  CHECK(b.gradient == a.gradient);
  REQUIRE(a.dense);
  REQUIRE(b.dense);
  CHECK(a.dense->ids == DenseOf(0).ids);
  CHECK(b.dense->ids == DenseOf(1).ids);
  LayerRows all = MergeRows({*a.dense, *b.dense});
  for (uint32_t unit = 0; unit < kHidden; ++unit) {
    const float g = static_cast<float>(unit + 1);
    CHECK(std::vector<float>(all.values.row(unit), all.values.row(unit) + kHidden) ==
          std::vector<float>{g, 2 * g, 0, 3 * g});
  }
  CHECK(std::vector<float>(all.values.row(kHidden), all.values.row(kHidden) + kHidden) ==
        std::vector<float>{1, 2, 3, 4});

  // The next batch is given the copy.
  BatchFlight next(config, kPlan, Lease(), Batch(), 6, {}, flight.dense());
  CHECK_FALSE(next.wants_dense());
  CHECK_FALSE(std::get<EmbedRequest>(next.RequestFor(0)).dense);
  TakeBoth(&next, EmbedReply{Filled({1, 2, 0, 3})}, EmbedReply{Filled({0, 0, -1, 0})});
  CHECK(std::get<ActiveQuery>(next.RequestFor(1)).hidden == hidden);
}

TEST_CASE("dense layers: products out of range of replies in range mean that training diverged") {
  const Config config = DenseConfig();
  const auto embed = [&](float h) {
    BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
    REQUIRE(flight.Take(1, EmbedReply{Filled({}), DenseOf(1)}).ok());
    const Result<bool> taken = flight.Take(0, EmbedReply{Filled({0, 0, h, 0}), DenseOf(0)});
    CHECK(taken.ok() == !flight.diverged());  // unit 3 has it three times
    return taken.ok();
  };
  CHECK(embed(0.25f * kMostReplied));
  CHECK_FALSE(embed(0.5f * kMostReplied));
  // On the way back. dL/dh_2 of unit 3 is multiplied by 3, and by h_1.
  const auto back = [&](float h, float gradient) {
    BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
    TakeBoth(&flight, EmbedReply{Filled({0, 0, h, 0}), DenseOf(0)},
             EmbedReply{Filled({}), DenseOf(1)});
    TakeBoth(&flight, Statistics(1, 2, 0.5f), Statistics(3, 1.5f, 0.25f));
    REQUIRE(flight.Take(1, GradientReply{Filled({})}).ok());
    const bool ok = flight.Take(0, GradientReply{Filled({0, 0, 0, gradient})}).ok();
    CHECK(ok == !flight.diverged());
    return ok;
  };
  CHECK(back(1, 0.25f * kMostReplied));
  CHECK_FALSE(back(1, 0.5f * kMostReplied));
  CHECK(back(0x1p20f, 0x1p39f));
  CHECK_FALSE(back(0x1p20f, 0x1p41f));
}

TEST_CASE("dense layers: replies without the rows, or with other rows, are refused") {
  const Config config = DenseConfig();
  const auto take = [&](const std::optional<LayerRows>& rows) {
    BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
    return flight.Take(0, EmbedReply{Filled({}), rows}).ok();
  };
  CHECK(take(DenseOf(0)));
  CHECK_FALSE(take(std::nullopt));
  CHECK_FALSE(take(DenseOf(1)));  // another server's
  LayerRows wrong = DenseOf(0);
  wrong.values = Matrix(wrong.values.rows, kHidden + 1);
  CHECK_FALSE(take(wrong));
  wrong = DenseOf(0);
  wrong.ids.back() = kFeatures + kHidden + 4;  // behind the last
  CHECK_FALSE(take(wrong));
  wrong = DenseOf(0);
  wrong.values.data[0] = 2 * kMostReplied;
  CHECK_FALSE(take(wrong));
  // One is missing: only all replies show that.
  BatchFlight flight(config, kPlan, Lease(), Batch(), 5);
  wrong = DenseOf(0);
  wrong.ids.pop_back();
  wrong.values = Matrix(static_cast<uint32_t>(wrong.ids.size()), kHidden);
  REQUIRE(flight.Take(0, EmbedReply{Filled({}), wrong}).ok());
  const Result<bool> last = flight.Take(1, EmbedReply{Filled({}), DenseOf(1)});
  REQUIRE_FALSE(last.ok());
  CHECK(last.error().message == "batch 1.3.2: the servers have sent 4 of 5 rows of dense layers");
  // What was not asked for.
  const Config without = FlightConfig();
  BatchFlight shallow(without, kPlan, Lease(), Batch(), 5);
  CHECK_FALSE(shallow.Take(0, EmbedReply{Filled({}), DenseOf(0)}).ok());
}

}  // namespace
}  // namespace dslide::batch_flight_test
