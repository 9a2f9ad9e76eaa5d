// The bytes that a plan reckons with, against messages that are encoded.
#include "tools/dslide/plan/wire_bytes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/random.h"
#include "common/run/slot_plan.h"
#include "worker/batch_flight.h"

namespace dslide::wire_bytes_test {
namespace {

constexpr uint32_t kFeatures = 50000, kLabels = 20000;

Config Configured(int32_t staleness) {
  Config config;
  config.model.hidden = 96;
  config.train.batch = 64;
  config.train.staleness = staleness;
  config.train.dropout_hidden = 0;
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

// About `per_sample` ids of [0, of), ascending.
void AddIds(uint32_t per_sample, uint32_t of, bool values, Random* random, SparseRows* rows) {
  std::vector<uint32_t> ids;
  const uint64_t count = 1 + random->Below(2 * per_sample);
  for (uint64_t i = 0; i < count; ++i) ids.push_back(static_cast<uint32_t>(random->Below(of)));
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const uint32_t id : ids) {
    rows->ids.push_back(id);
    if (values) rows->values.push_back(static_cast<float>(random->Uniform()));
  }
  rows->EndRow();
}

LeaseBatch RandomBatch(const Config& config, Random* random) {
  LeaseBatch batch;
  for (uint32_t i = 0; i < config.train.batch; ++i) {
    AddIds(60, kFeatures, true, random, &batch.features);
    AddIds(3, kLabels, false, random, &batch.labels);
  }
  return batch;
}

// Multiples of 1/8 with `share` that are not 0: no rounding makes them 0.
Matrix RandomMatrix(const Config& config, double share, Random* random) {
  Matrix matrix(config.train.batch, config.model.hidden);
  for (float& x : matrix.data) {
    if (random->Uniform() < share) x = 1.0f + 0.125f * static_cast<float>(random->Below(8));
  }
  return matrix;
}

PartialSum Partial(const Config& config, double share, Random* random) {
  const Matrix floats = RandomMatrix(config, share, random);
  if (!IsSynchronous(config.train)) return floats;
  FixedMatrix fixed(floats.rows, floats.cols);
  std::ranges::transform(floats.data, fixed.data.begin(),
                         [](float x) { return static_cast<int64_t>(x * 0x1p38f); });
  return fixed;
}

ActiveReply Statistics(const Config& config) {
  const uint32_t batch = config.train.batch;
  ActiveReply reply;
  reply.max.assign(batch, 1);
  reply.sum_exp.assign(batch, 2);
  reply.target_logit.assign(batch, 0.5);
  reply.active.assign(batch, 77);
  if (IsSynchronous(config.train)) reply.exp_sums.resize(batch);
  return reply;
}

double Size(Body body, WirePrecision precision) {
  return static_cast<double>(Encode({{}, std::move(body)}, precision).size());
}

struct Sums {
  double sent = 0;
  double received = 0;
};

// What a worker really exchanges with the servers for a batch, where the next batch's first request
// goes with the push.
Sums EncodedBytes(const Config& config, const LeaseBatch& batch, uint32_t servers,
                  const Activity& activity, WirePrecision precision, Random* random) {
  const Plan plan = EqualPlan(1, config.cluster.slots, std::vector<PlanServer>(servers));
  BatchFlight flight(config, plan, {1, LeaseKind::kTrain, 0, 0, 0, {}}, batch, 1);
  Sums sums;
  std::vector<EmbedRequest> first(servers);
  using Stage = BatchFlight::Stage;
  while (!flight.done()) {
    const Stage stage = flight.stage();
    std::vector<uint32_t> asked;
    for (uint32_t s = 0; s < servers; ++s) {
      if (flight.Asks(s)) asked.push_back(s);
    }
    for (const uint32_t s : asked) {
      Body request = flight.RequestFor(s);
      Body reply = Ack();
      if (stage == Stage::kEmbed) {
        first[s] = std::get<EmbedRequest>(request);
        reply = EmbedReply{Partial(config, activity.pre_activations.wide, random)};
        sums.received += Size(reply, precision);
      } else if (stage == Stage::kQuery) {
        const bool whole = std::get<ActiveQuery>(request).finish;
        if (whole) {
          reply = GradientReply{Partial(config, activity.hidden_gradient.wide, random),
                                Statistics(config)};
        } else {
          reply = Statistics(config);
        }
      } else if (stage == Stage::kPush) {
        reply = GradientReply{Partial(config, activity.hidden_gradient.wide, random)};
      } else {
        std::get<EmbedPush>(request).next = first[s];
      }
      if (stage != Stage::kEmbed) sums.sent += Size(std::move(request), precision);
      if (stage != Stage::kEmbed && stage != Stage::kEmbedPush) {
        sums.received += Size(reply, precision);
      }
      REQUIRE(flight.Take(s, std::move(reply)).ok());
    }
  }
  return sums;
}

TEST_CASE("plan: a batch's messages have the bytes that the model says") {
  Random random(7);
  for (const int32_t staleness : {-1, 0}) {
    const Config config = Configured(staleness);
    std::vector<LeaseBatch> batches;
    for (int b = 0; b < 4; ++b) batches.push_back(RandomBatch(config, &random));
    const DataShape shape = MeasureShape(batches, config);
    for (const uint32_t servers : {1u, 2u, 4u, 16u}) {
      for (const WirePrecision precision :
           {WirePrecision::kBf16, WirePrecision::kInt8, WirePrecision::kFp32}) {
        CAPTURE(staleness);
        CAPTURE(servers);
        CAPTURE(precision);
        // The activations follow from the sums of all servers, the gradient from both.
        Activity activity;
        activity.pre_activations = {0.3, 0.3};
        activity.hidden_gradient = {0.4, 0.4};
        Sums encoded;
        for (const LeaseBatch& batch : batches) {
          const Sums one = EncodedBytes(config, batch, servers, activity, precision, &random);
          encoded.sent += one.sent / 4;
          encoded.received += one.received / 4;
        }
        const Plan plan = EqualPlan(1, config.cluster.slots, std::vector<PlanServer>(servers));
        const auto with_input = ServersWith(plan, InputSlots(config.cluster));
        const auto with_neurons = ServersWith(plan, OutputSlots(config.cluster));
        const auto inputs = static_cast<double>(std::ranges::count(with_input, true));
        const auto neurons = static_cast<double>(std::ranges::count(with_neurons, true));
        const auto share_of_sums = [](double share, double parts) {
          return 1 - std::pow(1 - share, parts);
        };
        const double hidden = share_of_sums(0.3, inputs);
        activity.hidden = {hidden, hidden};
        const double gradient = hidden * share_of_sums(0.4, neurons);
        activity.gradient = {gradient, gradient};
        Sums planned;
        for (uint32_t s = 0; s < servers; ++s) {
          // Equal parts where the slots do not divide evenly are close enough.
          const ServerPart part{with_neurons[s] ? 1 / neurons : 0, with_input[s] ? 1 / inputs : 0,
                                neurons, inputs};
          const MessageBytes bytes = BytesOfBatch(config, shape, activity, part, precision);
          planned.sent += bytes.sent();
          planned.received += bytes.received();
        }
        CHECK(planned.sent == doctest::Approx(encoded.sent).epsilon(0.03));
        CHECK(planned.received == doctest::Approx(encoded.received).epsilon(0.03));
      }
    }
  }
}

TEST_CASE("plan: a matrix takes a bitmap and its elements, or all of them") {
  // 100 x 8 elements: 100 bytes of bitmap.
  const auto payload = [](double share, WirePrecision precision) {
    return MatrixBytes(100, 8, share, precision) - MatrixBytes(0, 8, share, precision);
  };
  CHECK(payload(1, WirePrecision::kBf16) == 1600);
  CHECK(payload(0.25, WirePrecision::kBf16) == doctest::Approx(100 + 400 + 8));
  CHECK(payload(1, WirePrecision::kFp32) == 3200);
  CHECK(payload(0.5, WirePrecision::kInt8) == doctest::Approx(100 + 400 + 400 + 8));
  // In fixed point an element has 8 bytes.
  CHECK(MatrixBytes(100, 8, 0.5, WirePrecision::kInt8, true) -
            MatrixBytes(0, 8, 0.5, WirePrecision::kInt8, true) ==
        doctest::Approx(100 + 3200 + 8));
}

TEST_CASE("plan: a lease has the bytes that the model says") {
  Random random(3);
  const Config config = Configured(-1);
  LeaseGrant grant;
  double bytes = 0;
  for (int b = 0; b < 8; ++b) grant.batches.push_back(RandomBatch(config, &random));
  const DataShape shape = MeasureShape(grant.batches, config);
  bytes = Size(grant, FixedPrecision(config.cluster.wire)) / 8;
  CHECK(LeaseBytes(config, shape) == doctest::Approx(bytes).epsilon(0.02));
}

TEST_CASE("plan: ids that more servers share have wider gaps") {
  Random random(5);
  const Config config = Configured(-1);
  const std::vector<LeaseBatch> batches = {RandomBatch(config, &random)};
  const DataShape shape = MeasureShape(batches, config);
  const std::set<uint32_t> ids(batches[0].features.ids.begin(), batches[0].features.ids.end());
  CHECK(shape.features.distinct == static_cast<double>(ids.size()));
  CHECK(shape.features.per_sample ==
        static_cast<double>(batches[0].features.ids.size()) / config.train.batch);
  CHECK(shape.features.GapBytes(1) > 1.5);
  CHECK(shape.features.GapBytes(4) >= shape.features.GapBytes(1));
  CHECK(shape.features.GapBytes(3) >= shape.features.GapBytes(2));
  CHECK(shape.features.GapBytes(3) <= shape.features.GapBytes(4));
}

}  // namespace
}  // namespace dslide::wire_bytes_test
