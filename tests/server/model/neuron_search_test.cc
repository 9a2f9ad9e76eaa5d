// The ways to find the best neurons, against scores in double from the layer's rows.
#include "server/model/neuron_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/server/support/test_batches.h"

namespace dslide {
namespace {

constexpr uint32_t kHidden = 48;
constexpr uint32_t kSamples = 37;

// Random neurons of half of the slots, and activations.
struct Neurons {
  Config config;
  OutputRows rows;
  Matrix hidden;

  Neurons(uint32_t labels, Precision precision, Purpose purpose)
      : config(Make(labels, precision)),
        rows{Layer(LayerKind::kOutput, config, SlotMap(labels, config.cluster.slots, Half()),
                   purpose, BestKernels())},
        hidden(kSamples, kHidden) {
    Random random(7);
    rows.layer.Initialise(3, 0.3f, labels);
    for (float& h : hidden.data) {
      h = std::max(0.0f, static_cast<float>(random.Normal() + 0.3));
    }
  }

  static Config Make(uint32_t labels, Precision precision) {
    Config config = SmallConfig(10, labels, kHidden);
    config.model.precision = precision;
    return config;
  }
  std::vector<SlotId> Half() const {
    std::vector<SlotId> slots = AllSlots(config);
    slots.resize((slots.size() + 1) / 2);
    return slots;
  }

  std::vector<float> Weights(uint32_t row) const {
    std::vector<float> w(kHidden);
    const uint32_t one[] = {row};
    rows.layer.Gather(one, w.data());
    return w;
  }

  // The ids of the best k of a sample, best first.
  std::vector<uint32_t> Best(size_t sample, uint32_t k, std::span<const uint32_t> excluded) const {
    std::vector<std::pair<double, uint32_t>> all;
    for (uint32_t row = 0; row < rows.layer.map().rows(); ++row) {
      const uint32_t id = rows.layer.map().Global(row);
      if (id == SlotMap::kNone || std::ranges::count(excluded, id) > 0) continue;
      const std::vector<float> w = Weights(row);
      double score = rows.layer.bias(row);
      for (uint32_t p = 0; p < kHidden; ++p) {
        score += double{w[p]} * double{hidden.row(sample)[p]};
      }
      all.push_back({-score, id});
    }
    std::ranges::sort(all);
    std::vector<uint32_t> ids;
    for (size_t i = 0; i < std::min<size_t>(k, all.size()); ++i) ids.push_back(all[i].second);
    return ids;
  }

  double Recall(const TopKReply& reply, const TopKRequest& request) const {
    double found = 0, all = 0;
    for (uint32_t i = 0; i < kSamples; ++i) {
      const auto excluded =
          request.excluded.rows() == 0 ? std::span<const uint32_t>() : request.excluded.Ids(i);
      const std::vector<uint32_t> best = Best(i, request.k, excluded);
      REQUIRE(reply.offsets[i + 1] - reply.offsets[i] == best.size());
      const std::set<uint32_t> ids(reply.ids.begin() + reply.offsets[i],
                                   reply.ids.begin() + reply.offsets[i + 1]);
      for (const uint32_t id : best) found += ids.contains(id);
      all += static_cast<double>(best.size());
    }
    return all == 0 ? 1 : found / all;
  }

  // Every score is the neuron's, best first, and no neuron comes twice.
  void CheckScores(const TopKReply& reply) const {
    for (uint32_t i = 0; i < kSamples; ++i) {
      std::set<uint32_t> seen;
      for (uint32_t e = reply.offsets[i]; e < reply.offsets[i + 1]; ++e) {
        const uint32_t row = rows.layer.map().Local(reply.ids[e]);
        REQUIRE(row != SlotMap::kNone);
        CHECK(seen.insert(row).second);
        const std::vector<float> w = Weights(row);
        double score = rows.layer.bias(row);
        for (uint32_t p = 0; p < kHidden; ++p) score += double{w[p]} * double{hidden.row(i)[p]};
        REQUIRE(double{reply.scores[e]} == doctest::Approx(score).epsilon(1e-4));
        if (e > reply.offsets[i]) CHECK(reply.scores[e - 1] >= reply.scores[e]);
      }
    }
  }
};

TEST_CASE("search: exact and scan find the best neurons, in both precisions and purposes") {
  for (const uint32_t labels : {1u, 130u, 3000u}) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      for (const Purpose purpose : {Purpose::kTraining, Purpose::kInference}) {
        const Neurons neurons(labels, precision, purpose);
        NeuronSearch search(neurons.rows, purpose, BestKernels());
        for (const uint32_t k : {0u, 1u, 10u, 200u}) {
          CAPTURE(labels);
          CAPTURE(k);
          TopKRequest request{neurons.hidden, k, Search::kExact, {}};
          const TopKReply exact = search.Find(request, 0);
          neurons.CheckScores(exact);
          CHECK(neurons.Recall(exact, request) >= 0.999);
          request.search = Search::kScan;
          const TopKReply scan = search.Find(request, 0);
          neurons.CheckScores(scan);
          CHECK(neurons.Recall(scan, request) >= 0.999);
        }
        CHECK((search.MemoryBytes() > 0) == (purpose == Purpose::kInference));
      }
    }
  }
}

TEST_CASE("search: a scan leaves out the labels that are excluded, not their place") {
  const Neurons neurons(3000, Precision::kFp32, Purpose::kInference);
  NeuronSearch search(neurons.rows, Purpose::kInference, BestKernels());
  TopKRequest request{neurons.hidden, 10, Search::kScan, {}};
  const TopKReply before = search.Find(request, 0);
  for (uint32_t i = 0; i < kSamples; ++i) {
    const auto best = std::span(before.ids).subspan(before.offsets[i], 8);
    request.excluded.ids.insert(request.excluded.ids.end(), best.begin(), best.end());
    request.excluded.ids.push_back(2999);  // of a slot that is not here
    request.excluded.EndRow();
  }
  const TopKReply after = search.Find(request, 0);
  neurons.CheckScores(after);
  CHECK(neurons.Recall(after, request) >= 0.999);
}

TEST_CASE("search: labels that a stream has forgotten are never among the best") {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Neurons neurons(500, precision, Purpose::kTraining);
    Layer& layer = neurons.rows.layer;
    std::set<uint32_t> live;
    for (uint32_t row = 0; row < layer.map().rows(); ++row) {
      const uint32_t id = layer.map().Global(row);
      if (id == SlotMap::kNone) continue;
      if (id % 3 == 1) {
        layer.Silence(row);
      } else {
        live.insert(id);
      }
    }
    neurons.config.hash.k = 1;
    neurons.config.hash.tables = 8;
    neurons.rows.index.emplace(neurons.config, &layer, Purpose::kTraining, BestKernels());
    neurons.rows.index->tables().TouchAll();
    neurons.rows.index->tables().CatchUp();
    NeuronSearch search(neurons.rows, Purpose::kTraining, BestKernels());
    for (const Search by : {Search::kExact, Search::kScan, Search::kLsh}) {
      const TopKReply reply = search.Find({neurons.hidden, 500, by, {}}, 500);
      for (uint32_t i = 0; i < kSamples; ++i) {
        for (const uint32_t id : reply.Ids(i)) CHECK(live.contains(id));
        if (by != Search::kLsh) CHECK(reply.Ids(i).size() == live.size());
      }
    }
  }
}

TEST_CASE("search: while training goes on a scan follows the rows") {
  Neurons neurons(500, Precision::kFp32, Purpose::kTraining);
  NeuronSearch search(neurons.rows, Purpose::kTraining, BestKernels());
  const TopKRequest request{neurons.hidden, 3, Search::kScan, {}};
  (void)search.Find(request, 0);
  const uint32_t row = 1;
  const uint32_t id = neurons.rows.layer.map().Global(row);
  const std::vector<float> gradient(kHidden, -1.0f);
  for (int step = 0; step < 50; ++step) neurons.rows.Update(row, 0.5f, gradient.data(), -1.0f);
  const TopKReply reply = search.Find(request, 0);
  for (uint32_t i = 0; i < kSamples; ++i) CHECK(reply.ids[reply.offsets[i]] == id);
  neurons.CheckScores(reply);
}

TEST_CASE("search: activations that int8 does not hold are ranked exactly") {
  Neurons neurons(500, Precision::kFp32, Purpose::kInference);
  NeuronSearch search(neurons.rows, Purpose::kInference, BestKernels());
  neurons.hidden.data[3] = -2.0f;
  TopKRequest request{neurons.hidden, 5, Search::kScan, {}};
  const TopKReply scan = search.Find(request, 0);
  CHECK(search.MemoryBytes() == 0);
  request.search = Search::kExact;
  CHECK(scan == search.Find(request, 0));
}

TEST_CASE("search: with a wanted recall a scan is checked, where there are enough rows") {
  for (const uint32_t labels : {1000u, 8000u}) {
    const Neurons neurons(labels, Precision::kFp32, Purpose::kInference);
    NeuronSearch search(neurons.rows, Purpose::kInference, BestKernels());
    TopKRequest request{neurons.hidden, 5, Search::kExact, {}};
    CHECK_FALSE(search.ScansInInt8(request));
    request.recall = 0.99f;
    CHECK(search.ScansInInt8(request) == (labels == 8000));
    const TopKReply reply = search.Find(request, 0);
    CHECK((search.MemoryBytes() > 0) == (labels == 8000));
    neurons.CheckScores(reply);
    CHECK(neurons.Recall(reply, request) >= 0.99);
  }
}

TEST_CASE("search: where int8 cannot tell the neurons apart a checked scan is answered exactly") {
  // One large weight leaves the others no bits, and all activations of it are 0.
  Neurons neurons(8000, Precision::kFp32, Purpose::kInference);
  for (uint32_t row = 0; row < neurons.rows.layer.map().rows(); ++row) {
    neurons.rows.layer.row(row).weights[0] = 1e6f;
  }
  for (uint32_t i = 0; i < kSamples; ++i) neurons.hidden.row(i)[0] = 0;
  NeuronSearch search(neurons.rows, Purpose::kInference, BestKernels());
  TopKRequest request{neurons.hidden, 5, Search::kScan, {}};
  CHECK(neurons.Recall(search.Find(request, 0), request) < 0.9);
  request.search = Search::kExact;
  const TopKReply exact = search.Find(request, 0);
  request.recall = 0.99f;
  CHECK(search.Find(request, 0) == exact);
}

}  // namespace
}  // namespace dslide
