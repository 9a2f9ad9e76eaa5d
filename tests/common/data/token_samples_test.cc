#include "common/data/token_samples.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "common/base/random.h"
#include "common/data/checksum.h"
#include "common/data/data_order.h"
#include "common/data/measures/label_counts.h"
#include "common/data/whole_file.h"
#include "tests/support/results.h"

namespace dslide::token_samples_test {
namespace {

constexpr uint32_t kEnd = TokenSamples::kLineEnd;

// As text() of token_samples_reference.py.
std::vector<uint32_t> Tokens() {
  Random random(99);
  std::vector<uint32_t> tokens;
  uint64_t left = 1 + random.Below(17);
  for (int i = 0; i < 300; ++i) {
    const uint64_t a = random.Below(12);
    tokens.push_back(static_cast<uint32_t>(std::min(a, random.Below(12))));
    if (--left > 0) continue;
    tokens.push_back(kEnd);
    left = 1 + random.Below(17);
  }
  if (tokens.back() != kEnd) tokens.push_back(kEnd);
  return tokens;
}

Dataset Drawn(const TokenRules& rules, uint32_t vocabulary, std::vector<uint32_t> tokens) {
  return {vocabulary, vocabulary,
          std::make_shared<const TokenSamples>(rules, vocabulary, std::move(tokens))};
}

const TokenRules kWords{false, 3, 0.02, 1};
const TokenRules kSessions{true, 4, 0, 0.5f};

std::string LineOf(const char* kind, uint32_t epoch, const SampleView& sample) {
  std::vector<std::string> features;
  for (size_t f = 0; f < sample.features.size(); ++f) {
    features.push_back(fmt::format("{}:{:.6f}", sample.features[f], sample.values[f]));
  }
  return fmt::format("{} {} {} {} {:.6f}\n", kind, epoch, fmt::join(features, ","),
                     fmt::join(sample.labels, ","), sample.weight);
}

TEST_CASE("token samples: those of a plain description, in its order") {
  const Dataset words = Drawn(kWords, 12, Tokens());
  const Dataset sessions = Drawn(kSessions, 12, Tokens());
  std::string lines;
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (const auto& [kind, data] :
         {std::pair{"words", &words}, std::pair{"sessions", &sessions}}) {
      const DataOrder order = DataOrder::Epoch(*data, 7, epoch, 16);
      CHECK(order.samples() == data->size());
      CHECK(order.weighted() == (data == &words));
      for (uint64_t at = 0; at < order.samples(); ++at) {
        lines += LineOf(kind, epoch, order.Sample(at));
      }
    }
  }
  const std::string golden =
      Ok(ReadWholeFile(std::string(DSLIDE_SOURCE_DIR) + "/tests/common/data/token_samples.golden"));
  CHECK(lines == golden);
}

// A worker asks for a batch out of turn, or twice.
TEST_CASE("token samples: a sample does not depend on those drawn before") {
  const Dataset words = Drawn(kWords, 12, Tokens());
  const DataOrder order = DataOrder::Epoch(words, 1, 4, 8);
  const DataOrder again = DataOrder::Epoch(words, 1, 4, 8);
  for (uint64_t at = order.samples(); at-- > 0;) {
    CHECK(LineOf("", 4, order.Sample(at)) == LineOf("", 4, again.Sample(at)));
  }
}

TEST_CASE("token samples: frequent words lose occurrences, rare ones none") {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 20000; ++i) {
    tokens.push_back(i % 20 == 0 ? 1 + i / 20 % 500 : 0);
    if (i % 10 == 9) tokens.push_back(kEnd);
  }
  const TokenSamples samples({false, 2, 0.001, 1}, 501, tokens);
  // Of token 0, 19,000 occurrences: f = 0.95, sqrt(t / f) + t / f = 0.0335.
  const double expected = 1000 + 19000 * (std::sqrt(0.001 / 0.95) + 0.001 / 0.95);
  CHECK(samples.size() == static_cast<uint64_t>(std::ceil(expected)));
  std::set<std::vector<uint32_t>> orders;
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<uint32_t> order = samples.Order(TokenSamples::Draws(3, epoch));
    CHECK(order.size() == samples.size());
    CHECK(std::set<uint32_t>(order.begin(), order.end()).size() == order.size());
    const auto rare = std::ranges::count_if(order, [&](uint32_t p) { return tokens[p] != 0; });
    CHECK(rare > 970);  // an order may lack a few, of all words alike
    orders.insert(order);
  }
  CHECK(orders.size() == 3);
}

TEST_CASE("token samples: windows end with the line, and labels are there once") {
  const std::vector<uint32_t> tokens = {0, 1, 0, 2, kEnd, 3, kEnd, 4, 5, kEnd};
  TokenSamples::Scratch scratch;
  const TokenRules words{false, 2, 0, 1};
  const auto labels = [&](uint32_t p) {
    const SampleView sample = TokenSamples::WholeSample(words, tokens, p, &scratch);
    CHECK(sample.weight == 1);
    return std::vector<uint32_t>(sample.labels.begin(), sample.labels.end());
  };
  CHECK(labels(0) == std::vector<uint32_t>{0, 1});
  CHECK(labels(1) == std::vector<uint32_t>{0, 2});
  CHECK(labels(5).empty());
  CHECK(labels(7) == std::vector<uint32_t>{5});
  CHECK_FALSE(TokenSamples::IsSample(words, tokens, 4));
  const TokenRules sessions{true, 2, 0, 0.5f};
  CHECK_FALSE(TokenSamples::IsSample(sessions, tokens, 5));
  CHECK(TokenSamples::IsSample(sessions, tokens, 3));
  // The last two items before it.
  const SampleView next = TokenSamples::WholeSample(sessions, tokens, 3, &scratch);
  CHECK(LineOf("", 0, next) == " 0 0:1.000000,1:0.500000 2 1.000000\n");
}

TEST_CASE("token samples: features to predict by") {
  TokenSamples::Scratch scratch;
  TokenSamples::FeaturesOf({true, 3, 0, 0.5f}, {9, 4, 2, 4}, &scratch);
  CHECK(scratch.features == std::vector<uint32_t>{2, 4});
  CHECK(scratch.values == std::vector<float>{0.5f, 1.25f});
  TokenSamples::FeaturesOf({false, 1, 0, 1}, {9, 4, 9, 2}, &scratch);
  CHECK(scratch.features == std::vector<uint32_t>{2, 4, 9});
  CHECK(scratch.values == std::vector<float>{0.25f, 0.25f, 0.5f});
  TokenSamples::FeaturesOf({false, 1, 0, 1}, {}, &scratch);
  CHECK(scratch.features.empty());
}

TEST_CASE("token samples: counts and checksums are those of the tokens") {
  const std::vector<uint32_t> tokens = {0, 1, 0, kEnd, 3, 0, kEnd};
  const Dataset data = Drawn(kWords, 4, tokens);
  CHECK(CountLabels(data) == std::vector<LabelCount>{{0, 3}, {1, 1}, {3, 1}});
  CHECK(Checksum(data) == Checksum(Drawn(kWords, 4, tokens)));
  CHECK(Checksum(data) != Checksum(Drawn({false, 4, 0.02, 1}, 4, tokens)));
  CHECK(Checksum(data) != Checksum(Drawn(kWords, 4, {0, 1, kEnd, 0, 3, 0, kEnd})));
}

}  // namespace
}  // namespace dslide::token_samples_test
