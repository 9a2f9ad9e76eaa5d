#include "common/model/ranker.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/run/silence.h"
#include "tests/common/model/small_model.h"

namespace dslide::ranker_test {
namespace {

constexpr uint32_t kFeatures = 30;
constexpr uint32_t kSamples = 21;

// Of 24 = 6 x 4 and 21 = 5 x 4 + 1 units.
const SmallModel kSmall(kFeatures, 24, 500, 1);
const SmallModel kOdd(kFeatures, 21, 500, 2);
constexpr ModelBuilder::Options kOf25Cells = {.int8_only = false, .cells = 25};

void CheckBest(const SmallModel& small, const std::shared_ptr<const Model>& model,
               ModelSearch search, uint32_t k) {
  const SparseRows samples = SmallSamples(kSamples, kFeatures, 3);
  Ranker ranker(model, BestKernels());
  const Matrix hidden = *ranker.Embed(samples);
  RankRequest request;
  request.k = k;
  request.search = search;
  request.probabilities = true;
  const RankedLabels ranked = *ranker.Rank(hidden, request);
  REQUIRE(ranked.best.offsets.size() == kSamples + 1);
  REQUIRE(ranked.probabilities.size() == ranked.best.ids.size());
  for (uint32_t i = 0; i < kSamples; ++i) {
    const std::vector<double> h = small.Activations(samples, i);
    for (uint32_t d = 0; d < small.hidden; ++d) {
      CHECK(hidden.row(i)[d] == doctest::Approx(h[d]).epsilon(1e-5));
    }
    const std::vector<double> logits = small.Logits(samples, i);
    const std::vector<uint32_t> order = SmallModel::Order(logits);
    double total = 0;
    for (const double z : logits) total += std::exp(z - logits[order[0]]);
    const uint32_t begin = ranked.best.offsets[i];
    REQUIRE(ranked.best.offsets[i + 1] - begin == std::min(k, small.labels));
    for (uint32_t r = 0; r < std::min(k, small.labels); ++r) {
      const double z = logits[order[r]];
      CHECK(ranked.best.scores[begin + r] == doctest::Approx(z).epsilon(1e-4));
      if (search != ModelSearch::kExact) continue;
      CHECK(ranked.best.ids[begin + r] == order[r]);
      CHECK(ranked.probabilities[begin + r] ==
            doctest::Approx(std::exp(z - logits[order[0]]) / total).epsilon(1e-3));
    }
  }
}

TEST_CASE("ranker: every search finds the best labels, of one cell and of many") {
  for (const SmallModel* small : {&kSmall, &kOdd}) {
    for (const uint32_t cells : {1u, 20u}) {
      CAPTURE(cells);
      const auto model = small->Build({.int8_only = false, .cells = cells, .threads = 2});
      for (const uint32_t k : {1u, 5u, 600u}) {
        CheckBest(*small, model, ModelSearch::kExact, k);
        if (k > small->labels) continue;
        CheckBest(*small, model, ModelSearch::kScan, k);
        CheckBest(*small, model->WithProbes(model->cells(), 1), ModelSearch::kIndex, k);
        CheckBest(*small, model, ModelSearch::kIndex, k);  // without an index: a scan
      }
    }
  }
}

TEST_CASE("ranker: a logit adjustment is one of the biases, whatever the search") {
  std::vector<uint32_t> counts;
  SmallModel shifted = kSmall;
  for (uint32_t label = 0; label < kSmall.labels; ++label) counts.push_back(label % 7 * label);
  const BiasShift shift(counts, 0.4f);
  for (uint32_t label = 0; label < kSmall.labels; ++label) shifted.biases[label] -= shift[label];
  ModelBuilder builder = kSmall.Builder();
  builder.SetLabelCounts(counts);
  const auto model = std::move(builder).Finish({.int8_only = false, .cells = 20});
  const auto adjusted = model->WithLogitAdjustment(0.4f);
  for (const uint32_t k : {1u, 5u}) {
    CheckBest(shifted, adjusted, ModelSearch::kExact, k);
    CheckBest(shifted, adjusted, ModelSearch::kScan, k);
    CheckBest(shifted, adjusted->WithProbes(model->cells(), 1), ModelSearch::kIndex, k);
    CheckBest(kSmall, model, ModelSearch::kExact, k);  // as it was
  }
  // A cell is where the mean of its neurons is, with their biases.
  for (uint32_t cell = 0; cell < model->cells(); ++cell) {
    double mean = 0;
    uint32_t neurons = 0;
    for (uint32_t p = model->CellBegin(cell); p < model->CellEnd(cell); ++p) {
      const uint32_t label = model->arrays().label_of[p];
      if (label == kNoLabel) continue;
      mean += double{shifted.biases[label]};
      ++neurons;
    }
    if (neurons == 0) continue;
    CHECK(adjusted->arrays().cell_biases[cell] == doctest::Approx(mean / neurons).epsilon(1e-4));
  }
  CHECK(AdjustedModel(model, 0) == model);  // whose adjustment is 0
  CHECK(AdjustedModel(kSmall.Build(), 1)->arrays().label_counts.empty());
}

TEST_CASE("ranker: values are divided by the model's train.normalize") {
  SmallModel scaled = kSmall;
  scaled.normalize = 8;
  const auto model = scaled.Build();
  SparseRows samples = SmallSamples(kSamples, kFeatures, 3);
  const Matrix expected = *Ranker(kSmall.Build(), BestKernels()).Embed(samples);
  for (float& value : samples.values) value *= 8;
  CHECK(Ranker(model, BestKernels()).Embed(samples)->data == expected.data);
}

TEST_CASE("ranker: a linear model has negative activations, and is searched exactly") {
  SmallModel linear = kSmall;
  linear.linear = true;
  const auto model = linear.Build();
  for (const ModelSearch search : {ModelSearch::kExact, ModelSearch::kScan, ModelSearch::kIndex}) {
    CheckBest(linear, model, search, 5);
  }
  const SparseRows samples = SmallSamples(4, kFeatures, 5);
  const Matrix hidden = *Ranker(model, BestKernels()).Embed(samples);
  CHECK(std::ranges::any_of(hidden.data, [](float h) { return h < 0; }));
  RankRequest request;
  request.k = 5;
  request.search = ModelSearch::kExact;
  const RankedLabels exact = *Ranker(model, BestKernels()).Rank(hidden, request);
  request.search = ModelSearch::kScan;
  CHECK(Ranker(model, BestKernels()).Rank(hidden, request)->best.ids == exact.best.ids);
}

TEST_CASE("ranker: the probabilities of all labels add up to 1, of each sigmoid is its own") {
  const SparseRows samples = SmallSamples(3, kFeatures, 4);
  RankRequest request;
  request.k = kSmall.labels;
  request.probabilities = true;
  for (const ModelSearch search : {ModelSearch::kExact, ModelSearch::kScan}) {
    request.search = search;
    Ranker ranker(kSmall.Build(), BestKernels());
    const RankedLabels ranked = *ranker.Rank(*ranker.Embed(samples), request);
    for (uint32_t i = 0; i < samples.rows(); ++i) {
      double sum = 0;
      for (uint32_t e = ranked.best.offsets[i]; e < ranked.best.offsets[i + 1]; ++e) {
        sum += ranked.probabilities[e];
      }
      CHECK(sum == doctest::Approx(1).epsilon(search == ModelSearch::kExact ? 1e-4 : 0.1));
    }
  }
  Ranker sigmoid(kSmall.Builder(Loss::kSigmoid).Finish({}), BestKernels());
  const RankedLabels ranked = *sigmoid.Rank(*sigmoid.Embed(samples), request);
  for (size_t e = 0; e < ranked.best.ids.size(); ++e) {
    CHECK(ranked.probabilities[e] ==
          doctest::Approx(1 / (1 + std::exp(-double{ranked.best.scores[e]}))));
  }
}

TEST_CASE("ranker: an index reads the cells that are asked for, and estimates the others") {
  const auto model = kSmall.Build(kOf25Cells)->WithProbes(6, 0.5f);
  const SparseRows samples = SmallSamples(200, kFeatures, 5);
  Ranker ranker(model, BestKernels());
  const Matrix hidden = *ranker.Embed(samples);
  RankRequest request;
  request.k = 10;
  request.probabilities = true;
  request.search = ModelSearch::kExact;
  const RankedLabels exact = *ranker.Rank(hidden, request);
  request.search = ModelSearch::kIndex;
  size_t found = 0;
  for (uint32_t i = 0; i < samples.rows(); ++i) {
    // Alone: several together may be scanned.
    const RankedLabels ranked = *ranker.Rank(OneRow(hidden, i), request);
    for (size_t r = 0; r < ranked.best.ids.size(); ++r) {
      const auto ids = exact.best.Ids(i);
      const auto at = std::ranges::find(ids, ranked.best.ids[r]);
      if (at == ids.end()) continue;
      ++found;
      const size_t e = exact.best.offsets[i] + static_cast<size_t>(at - ids.begin());
      CHECK(ranked.best.scores[r] == doctest::Approx(exact.best.scores[e]).epsilon(1e-4));
      // A normaliser without its greatest terms is not worth much.
      if (ranked.best.ids[0] != ids[0] || ranked.best.ids[1] != ids[1]) continue;
      CHECK(ranked.probabilities[r] == doctest::Approx(exact.probabilities[e]).epsilon(0.25));
    }
  }
  const double recall = static_cast<double>(found) / static_cast<double>(exact.best.ids.size());
  CHECK(recall > 0.5);    // a quarter of the cells has far more than a quarter of the best
  CHECK(recall < 0.999);  // and not all
}

TEST_CASE("ranker: samples ranked together and alone get the same labels") {
  Ranker ranker(kSmall.Build(kOf25Cells)->WithProbes(2, 0.5f), BestKernels());
  const SparseRows samples = SmallSamples(40, kFeatures, 6);
  const Matrix hidden = *ranker.Embed(samples);
  RankRequest request;
  request.search = ModelSearch::kIndex;
  const TopKReply together = ranker.Rank(hidden, request)->best;
  for (uint32_t i = 0; i < samples.rows(); ++i) {
    const TopKReply alone = ranker.Rank(OneRow(hidden, i), request)->best;
    CHECK(std::ranges::equal(alone.Ids(0), together.Ids(i)));
  }
}

TEST_CASE("ranker: a sample for which the index finds too few labels gets those of a scan") {
  Ranker ranker(kSmall.Build(kOf25Cells)->WithProbes(1, 0.5f), BestKernels());
  const Matrix hidden = *ranker.Embed(SmallSamples(4, kFeatures, 6));
  // The first wants few labels, the second more than a cell has, the third more than there are, the
  // fourth few of those that are left.
  const std::vector<uint32_t> own_k = {3, 200, 600, 5};
  std::vector<LabelFilter> filters(4);
  for (uint32_t label = 0; label < 480; ++label) filters[3].denied.push_back(label);
  RankRequest request;
  request.own_k = own_k;
  request.filters = filters;
  request.probabilities = true;
  request.search = ModelSearch::kScan;
  const RankedLabels scanned = *ranker.Rank(hidden, request);
  request.search = ModelSearch::kIndex;
  const RankedLabels ranked = *ranker.Rank(hidden, request);
  request.fills_up = false;
  const RankedLabels first = *ranker.Rank(hidden, request);
  REQUIRE(ranked.probabilities.size() == ranked.best.ids.size());
  CHECK(std::ranges::equal(ranked.best.Ids(0), first.best.Ids(0)));
  CHECK(ranked.probabilities[0] == first.probabilities[0]);
  const std::vector<size_t> wanted = {3, 200, 500, 5};
  for (uint32_t i = 1; i < 4; ++i) {
    CHECK(first.best.Ids(i).size() < wanted[i]);
    REQUIRE(ranked.best.Ids(i).size() == wanted[i]);
    for (uint32_t r = 0; r < wanted[i]; ++r) {
      const uint32_t e = ranked.best.offsets[i] + r, s = scanned.best.offsets[i] + r;
      CHECK(ranked.best.ids[e] == scanned.best.ids[s]);
      CHECK(ranked.best.scores[e] == scanned.best.scores[s]);
      CHECK(ranked.probabilities[e] == scanned.probabilities[s]);
    }
  }
}

TEST_CASE("ranker: filters keep labels out, or let only some in, whatever the search") {
  const SparseRows samples = SmallSamples(2, kFeatures, 7);
  const std::vector<double> logits = kSmall.Logits(samples, 0);
  const std::vector<uint32_t> order = SmallModel::Order(logits);
  const auto model = kSmall.Build();
  for (const ModelSearch search : {ModelSearch::kExact, ModelSearch::kScan}) {
    for (const bool probabilities : {false, true}) {
      Ranker ranker(model, BestKernels());
      RankRequest request;
      request.k = 3;
      request.search = search;
      request.probabilities = probabilities;
      std::vector<LabelFilter> filters(2);
      filters[0].denied = {std::min(order[0], order[2]), std::max(order[0], order[2])};
      request.filters = filters;
      const auto first = [&] {
        const TopKReply best = ranker.Rank(*ranker.Embed(samples), request)->best;
        CHECK(best.Ids(1).size() == 3);
        return std::vector<uint32_t>(best.Ids(0).begin(), best.Ids(0).end());
      };
      CHECK(first() == std::vector{order[1], order[3], order[4]});
      filters[0].allowed = {order[499], order[2], order[7], order[100]};
      CHECK(first() == std::vector{order[7], order[100], order[499]});
      filters[0].allowed = std::vector<uint32_t>();
      CHECK(first().empty());
    }
  }
}

TEST_CASE("ranker: a filter that samples share counts beside those of their own") {
  const SparseRows samples = SmallSamples(3, kFeatures, 7);
  Ranker ranker(kSmall.Build(kOf25Cells)->WithProbes(1, 0.5f), BestKernels());
  const Matrix hidden = *ranker.Embed(samples);
  const auto best = [&](const std::vector<LabelFilter>& filters, ModelSearch search) {
    RankRequest request;
    request.k = 5;
    request.search = search;
    request.filters = filters;
    return ranker.Rank(hidden, request)->best;
  };
  LabelFilter shared, allowing;
  for (uint32_t label = 0; label < 480; ++label) shared.denied.push_back(label);
  allowing.allowed = {481, 482, 483, 490, 499};
  const std::vector<LabelFilter> filters = {
      {{}, {3, 481, 490}, &shared}, {{}, {490}, &allowing}, {{{7, 490, 498}}, {498}, &shared}};
  std::vector<LabelFilter> plain = {shared, allowing, {{{490}}, {}}};
  plain[0].denied.insert(plain[0].denied.end(), {481, 490});
  plain[1].denied = {490};
  for (const ModelSearch search : {ModelSearch::kExact, ModelSearch::kScan, ModelSearch::kIndex}) {
    const TopKReply found = best(filters, search);
    CHECK(found.ids == best(plain, search).ids);
    CHECK(found.Ids(0).size() == 5);  // an index finds fewer in one cell
    CHECK(found.Ids(1).size() == 4);
    CHECK(found.Ids(2).size() == 1);
  }
}

TEST_CASE("ranker: labels that a stream has forgotten are never among the best") {
  SmallModel small = kSmall;
  const auto is_silent = [](uint32_t label) { return label % 3 == 1; };
  const uint32_t live = small.labels - (small.labels + 1) / 3;
  for (uint32_t label = 0; label < small.labels; ++label) {
    if (!is_silent(label)) continue;
    small.biases[label] = kSilentBias;
    std::fill_n(small.weights.begin() + size_t{label} * small.hidden, small.hidden, 0.0f);
  }
  std::vector<LabelFilter> only_some(3);
  for (LabelFilter& filter : only_some) filter.allowed = {1, 2, 3, 4, 5, 6};
  for (const bool int8_only : {false, true}) {
    const auto model = small.Build({.int8_only = int8_only, .cells = 20});
    CHECK(model->live_labels() == live);
    Ranker ranker(model->WithProbes(model->cells(), 1), BestKernels());
    const Matrix hidden = *ranker.Embed(SmallSamples(3, kFeatures, 4));
    RankRequest request;
    request.k = small.labels;
    for (const ModelSearch search :
         {ModelSearch::kExact, ModelSearch::kScan, ModelSearch::kIndex}) {
      request.search = search;
      for (const bool filtered : {false, true}) {
        request.filters =
            filtered ? std::span<const LabelFilter>(only_some) : std::span<const LabelFilter>();
        const TopKReply best = ranker.Rank(hidden, request)->best;
        for (uint32_t i = 0; i < hidden.rows; ++i) {
          CHECK(best.Ids(i).size() == (filtered ? 4 : live));
          CHECK(std::ranges::none_of(best.Ids(i), is_silent));
        }
      }
    }
  }
}

TEST_CASE("ranker: a forgotten label does not keep the search out of its cell") {
  // So many labels a cell that k-means sees few of the forgotten ones.
  SmallModel small(kFeatures, 24, 3000, 5);
  const float least = *std::ranges::min_element(small.biases);
  for (uint32_t label = 7; label < small.labels; label += 300) {
    small.biases[label] = kSilentBias;
    std::fill_n(small.weights.begin() + size_t{label} * small.hidden, small.hidden, 0.0f);
  }
  const auto model = small.Build({.int8_only = false, .cells = 10});
  for (const float bias : model->arrays().cell_biases) CHECK(bias >= least);
}

TEST_CASE("ranker: probabilities of the best add up to at most 1, however sure a sample is") {
  // Activations that round badly: the search in 8 bits scores labels lower than their rows do.
  SparseRows samples = SmallSamples(200, kFeatures, 9);
  for (float& value : samples.values) value *= 8;
  Ranker ranker(kSmall.Build(kOf25Cells)->WithProbes(1, 0.5f), BestKernels());
  const Matrix hidden = *ranker.Embed(samples);
  RankRequest request;
  request.k = 3;
  request.probabilities = true;
  for (const ModelSearch search : {ModelSearch::kScan, ModelSearch::kIndex}) {
    for (const bool best_only : {false, true}) {
      for (uint32_t i = 0; i < samples.rows(); ++i) {
        const std::vector<double> logits = kSmall.Logits(samples, i);
        const std::vector<uint32_t> order = SmallModel::Order(logits);
        std::vector<LabelFilter> filters(1);
        if (best_only) filters[0].allowed = {order[0], order[400]};
        request.filters = filters;
        request.search = search;
        const RankedLabels ranked = *ranker.Rank(OneRow(hidden, i), request);
        double sum = 0, total = 0;
        for (const float p : ranked.probabilities) sum += p;
        CHECK(sum <= 1 + 1e-6);
        if (search == ModelSearch::kIndex || best_only) continue;
        for (const double z : logits) total += std::exp(z - logits[order[0]]);
        CHECK(ranked.probabilities[0] == doctest::Approx(1 / total).epsilon(0.1));
      }
    }
  }
}

TEST_CASE("ranker: cells that are no numbers are searched last") {
  const auto model = kSmall.Build(kOf25Cells);
  std::vector<float> biases(model->arrays().cell_biases.begin(), model->arrays().cell_biases.end());
  for (size_t c = 0; c < biases.size(); c += 2) biases[c] = std::nanf("");
  ModelArrays arrays = model->arrays();
  arrays.cell_biases = biases;
  ModelInfo info = model->info();
  info.probes = 5;
  Ranker ranker(std::make_shared<const Model>(info, arrays, nullptr, model), BestKernels());
  RankRequest request;
  request.search = ModelSearch::kIndex;
  request.probabilities = true;
  const RankedLabels ranked = *ranker.Rank(*ranker.Embed(SmallSamples(1, kFeatures, 10)), request);
  REQUIRE(ranked.best.ids.size() == 5);
  for (const uint32_t label : ranked.best.ids) {
    const uint32_t position = model->PositionOf(label);
    uint32_t cell = 0;
    while (model->CellEnd(cell) <= position) ++cell;
    CHECK(cell % 2 == 1);
  }
  for (const float p : ranked.probabilities) CHECK(std::isfinite(p));
}

TEST_CASE("ranker: rows in int8 only give nearly the same scores") {
  Ranker ranker(kOdd.Build({.int8_only = true}), BestKernels());
  const SparseRows samples = SmallSamples(20, kFeatures, 8);
  RankRequest request;
  for (const ModelSearch search : {ModelSearch::kExact, ModelSearch::kScan}) {
    request.search = search;
    const TopKReply best = ranker.Rank(*ranker.Embed(samples), request)->best;
    for (uint32_t i = 0; i < samples.rows(); ++i) {
      const std::vector<double> logits = kOdd.Logits(samples, i);
      const std::vector<uint32_t> order = SmallModel::Order(logits);
      const double largest = std::abs(logits[order[0]]);
      for (uint32_t r = 0; r < 5; ++r) {
        const uint32_t e = best.offsets[i] + r;
        CHECK(std::abs(best.scores[e] - logits[best.ids[e]]) < 0.02 * largest);
        CHECK(logits[best.ids[e]] > logits[order[r]] - 0.04 * largest);
      }
    }
  }
}

}  // namespace
}  // namespace dslide::ranker_test
