#include "server/model/centroids.h"

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/run/combine.h"
#include "server/model/output_layer.h"
#include "tests/server/support/test_batches.h"

namespace dslide::centroids_test {
namespace {

constexpr uint32_t kHidden = 6, kLabels = 600, kBatch = 8;

using Vector = std::vector<double>;

double Dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void Add(const Vector& x, double factor, Vector* to) {
  for (size_t k = 0; k < x.size(); ++k) (*to)[k] += factor * x[k];
}

Vector Times(double factor, const Vector& x) {
  Vector result(x.size(), 0.0);
  Add(x, factor, &result);
  return result;
}

Vector Unit(const Vector& x) { return Times(1 / std::sqrt(Dot(x, x)), x); }

Vector Drawn(Random* random) {
  Vector x(kHidden);
  for (double& v : x) v = random->Uniform();
  return x;
}

// A label has `others` samples with the weights 1, 1 + step, ..., and one with `weight`.
void CheckWithoutSample(uint32_t others, double step, double weight, Random* random) {
  CAPTURE(others);
  CAPTURE(weight);
  Vector sum_of_others(kHidden, 0.0);
  for (uint32_t j = 0; j < others; ++j) Add(Unit(Drawn(random)), 1 + step * j, &sum_of_others);
  const Vector h = Drawn(random);
  Vector sum = sum_of_others;
  Add(Unit(h), weight, &sum);
  const Vector w = Times(kCentroidLength, Unit(sum));
  const Vector without = Times(kCentroidLength, Unit(sum_of_others));
  const LabelLogit label = WithoutSample(
      static_cast<float>(Dot(w, h)), static_cast<float>(std::sqrt(Dot(h, h))), others + 1,
      static_cast<float>(std::sqrt(Dot(sum, sum))), static_cast<float>(weight));
  CHECK(label.logit == doctest::Approx(Dot(without, h)).epsilon(1e-3));
  Vector slope = Times(label.neuron, w);
  Add(h, label.sample, &slope);
  for (uint32_t k = 0; k < kHidden; ++k) {
    CHECK(slope[k] == doctest::Approx(without[k]).epsilon(1e-3));
  }
}

TEST_CASE("the logit of a sample without its own part in the centroid") {
  Random random(7);
  for (uint32_t others = 1; others <= 11; ++others) CheckWithoutSample(others, 0, 1, &random);
  for (const double weight : {0.5, 3.0, 40.0}) CheckWithoutSample(5, 1, weight, &random);
}

TEST_CASE("the only sample of a label keeps its logit") {
  for (const LabelLogit label : {WithoutSample(5.0f, 2.0f, 0, 0.0f),
                                 WithoutSample(5.0f, 2.0f, 1, 1.0f), WithoutSample(5, 0, 4, 3)}) {
    CHECK(label.logit == 5.0f);
    CHECK(label.neuron == 1.0f);
    CHECK(label.sample == 0.0f);
  }
}

// dL/dh of a batch whose samples are in the centroids of layers that share the neurons.
struct Gradients {
  Matrix measured;
  std::vector<Vector> expected;
};

Gradients GradientsOf(const Config& config, uint32_t shards, uint64_t seed) {
  Random random(11);
  ActiveQuery query;
  query.hidden = Matrix(kBatch, kHidden);
  std::vector<Vector> hidden;
  std::vector<Vector> sums(kLabels, Vector(kHidden, 0.0));
  std::vector<uint32_t> samples(kLabels, 0);
  const auto belongs = [&](const Vector& h, uint32_t label) {
    Add(Unit(h), 1, &sums[label]);
    samples[label]++;
  };
  for (uint32_t i = 0; i < kBatch; ++i) {
    hidden.push_back(Times(4, Drawn(&random)));
    std::copy(hidden[i].begin(), hidden[i].end(), query.hidden.row(i));
    query.labels.ids.push_back(70 * i);
    query.labels.EndRow();
    query.label_totals.push_back(1);
    belongs(hidden[i], 70 * i);
  }
  for (uint32_t label = 0; label < kLabels; ++label) {
    if (label % 140 != 70) belongs(Drawn(&random), label);  // others have one sample
  }

  const auto slots = DivideSlots(AllSlots(config), config.cluster, shards);
  std::vector<std::unique_ptr<OutputLayer>> layers;
  std::vector<OutputBatch> batches(shards);
  std::vector<ActiveReply> replies;
  for (uint32_t s = 0; s < shards; ++s) {
    layers.push_back(
        std::make_unique<OutputLayer>(config, slots[s], Purpose::kTraining, BestKernels()));
    for (uint32_t label = 0; label < kLabels; ++label) {
      const uint32_t row = layers[s]->layer().map().Local(label);
      if (row == SlotMap::kNone || samples[label] == 0) continue;
      const std::vector<float> units(sums[label].begin(), sums[label].end());
      layers[s]->layer().AddToCentroid(row, units.data(), samples[label], 1, kCentroidLength);
    }
    replies.push_back(layers[s]->Query(query, {seed, kLabels}, &batches[s]));
  }
  const std::vector<float> normaliser = LogNormaliser(MergeActive(std::move(replies)));
  std::vector<PartialSum> partials;
  for (uint32_t s = 0; s < shards; ++s) {
    partials.push_back(layers[s]->Gradient(
        &batches[s], normaliser, [](uint32_t, const float*, float) { FAIL("gradient"); }));
  }

  Gradients result{InFloats(SumPartials(std::move(partials))), {}};
  for (uint32_t i = 0; i < kBatch; ++i) {
    std::vector<Vector> w;
    Vector logits;
    double sum = 0;
    for (uint32_t label = 0; label < kLabels; ++label) {
      Vector direction = sums[label];
      if (label == 70 * i && samples[label] > 1) Add(Unit(hidden[i]), -1, &direction);
      w.push_back(samples[label] > 0 ? Times(kCentroidLength, Unit(direction)) : direction);
      logits.push_back(Dot(w.back(), hidden[i]));
      sum += std::exp(logits.back());
    }
    Vector gradient(kHidden, 0.0);
    for (uint32_t label = 0; label < kLabels; ++label) {
      const double target = label == 70 * i ? 1 : 0;
      Add(w[label], (std::exp(logits[label]) / sum - target) / kBatch, &gradient);
    }
    result.expected.push_back(gradient);
  }
  return result;
}

TEST_CASE("the gradient of a sample is that of centroids without it") {
  Config config = SmallConfig(50, kLabels, kHidden);
  config.model.neurons = Neurons::kCentroids;
  for (const int32_t staleness : {-1, 0}) {
    for (const uint32_t shards : {1u, 3u}) {
      for (const float sparsify : {0.0f, 0.02f}) {  // the second: right in the mean only
        CAPTURE(staleness);
        CAPTURE(shards);
        CAPTURE(sparsify);
        config.train.staleness = staleness;
        config.train.sparsify = sparsify;
        const uint32_t runs = sparsify > 0 ? 200 : 1;
        const double most = sparsify > 0 ? 0.003 : 1e-5;  // 5 standard deviations of the mean
        std::vector<Vector> error(kBatch, Vector(kHidden, 0.0));
        for (uint32_t run = 0; run < runs; ++run) {
          const Gradients gradients = GradientsOf(config, shards, run);
          for (uint32_t i = 0; i < kBatch; ++i) {
            const float* measured = gradients.measured.row(i);
            Add(Vector(measured, measured + kHidden), 1.0 / runs, &error[i]);
            Add(gradients.expected[i], -1.0 / runs, &error[i]);
          }
        }
        for (const Vector& of_sample : error) {
          for (const double x : of_sample) CHECK(std::abs(x) < most);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dslide::centroids_test
