#include "common/run/hold_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "common/base/random.h"

namespace dslide {
namespace {

// With train.heldout = auto: fewer samples that differ decide nothing well, and small data misses
// them in training. Where few inputs occur again and again, the model would miss them, too.
constexpr uint32_t kLeastHeldOut = 250;

constexpr uint64_t kHeldOutStream = 0x4e1d;

uint64_t HashOf(const SampleView& sample, const Config& config) {
  uint64_t hash = SubSeed(config.common.seed, kHeldOutStream);
  if (config.train.exclude_own_features) {
    std::vector<uint32_t> ids(sample.features.begin(), sample.features.end());
    ids.insert(ids.end(), sample.labels.begin(), sample.labels.end());
    std::ranges::sort(ids);
    for (const uint32_t id : ids) hash = Mix64(hash ^ id);
    return hash;
  }
  for (size_t i = 0; i < sample.features.size(); ++i) {
    hash = Mix64(hash ^
                 (uint64_t{sample.features[i]} << 32 | std::bit_cast<uint32_t>(sample.values[i])));
  }
  return hash;
}

// [num_labels] samples of each label.
std::vector<uint32_t> SamplesOfLabels(const Dataset& data) {
  std::vector<uint32_t> samples(data.num_labels());
  for (size_t i = 0; i < data.size(); ++i) {
    for (const uint32_t label : data[i].labels) ++samples[label];
  }
  return samples;
}

// Samples with labels of which each has another sample.
uint64_t CountSpare(const Dataset& data) {
  const std::vector<uint32_t> samples = SamplesOfLabels(data);
  uint64_t spare = 0;
  for (size_t i = 0; i < data.records(); ++i) {
    const auto labels = data[i].labels;
    const bool needed = std::ranges::any_of(labels, [&](uint32_t l) { return samples[l] == 1; });
    if (!labels.empty() && !needed) ++spare;
  }
  return spare;
}

// Takes samples away from training, while labels and room allow.
class Chooser {
 public:
  Chooser(const Dataset& data, uint32_t wanted)
      : data_(data), wanted_(wanted), left_(SamplesOfLabels(data)) {}

  bool full() const { return chosen_.numbers.size() >= wanted_; }
  // Takes all of these samples, or none.
  void Take(std::span<const std::pair<uint64_t, uint32_t>> samples) {
    if (chosen_.numbers.size() + samples.size() > wanted_) return;
    bool spared = true;
    for (const auto& [hash, number] : samples) {
      spared &= !data_[number].labels.empty();
      for (const uint32_t label : data_[number].labels) spared &= --left_[label] > 0;
    }
    if (spared) ++chosen_.contents;
    for (const auto& [hash, number] : samples) {
      if (spared) {
        chosen_.numbers.push_back(number);
      } else {
        for (const uint32_t label : data_[number].labels) ++left_[label];
      }
    }
  }

  HeldOutSamples Chosen() && {
    std::ranges::sort(chosen_.numbers);
    return std::move(chosen_);
  }

 private:
  const Dataset& data_;
  const size_t wanted_;
  std::vector<uint32_t> left_;  // [num_labels] samples of the label that are trained
  HeldOutSamples chosen_;
};

}  // namespace

uint32_t DerivedHeldOut(uint64_t samples, uint64_t spare) {
  constexpr uint64_t kLeast = 500, kMost = 5000;
  return static_cast<uint32_t>(std::min(std::clamp(samples / 50, kLeast, kMost), spare / 20));
}

HeldOutSamples ChooseHeldOut(const Dataset& data, const Config& config) {
  DSLIDE_CHECK(data.drawn() == nullptr);
  const uint32_t wanted = config.train.heldout.value_or(0);
  if (wanted == 0) return {};
  std::vector<std::pair<uint64_t, uint32_t>> hashes;  // with the samples' numbers
  hashes.reserve(data.records());
  for (uint32_t i = 0; i < data.records(); ++i) {
    hashes.emplace_back(HashOf(data[i], config), i);
  }
  std::ranges::sort(hashes);
  Chooser chooser(data, wanted);
  for (size_t begin = 0, end; begin < hashes.size() && !chooser.full(); begin = end) {
    end = begin + 1;
    while (end < hashes.size() && hashes[end].first == hashes[begin].first) ++end;
    chooser.Take(std::span(hashes).subspan(begin, end - begin));
  }
  return std::move(chooser).Chosen();
}

Result<std::vector<uint32_t>> HoldOut(const Dataset& data, Config* config, std::string* note) {
  note->clear();
  TrainConfig& train = config->train;
  const uint32_t wanted = train.heldout.value_or(0);
  if (data.drawn() != nullptr && (wanted > 0 || !train.dev.empty())) {
    return BadInput(fmt::format(
        "{}: words and sessions have no held-out samples; leave it out",
        wanted > 0 ? fmt::format("train.heldout = {}", wanted) : "train.dev = " + train.dev));
  }
  if (wanted > 0 && !train.dev.empty()) {
    return BadInput(
        fmt::format("train.heldout = {}: the held-out samples are those of train.dev; leave one of "
                    "the two out",
                    wanted));
  }
  const bool derives = !train.heldout;
  const bool none = !train.dev.empty() || data.drawn() != nullptr;
  if (none || train.heldout == 0u) return std::vector<uint32_t>();
  if (derives) train.heldout = DerivedHeldOut(data.records(), CountSpare(data));
  auto [chosen, contents] = ChooseHeldOut(data, *config);
  if (derives && contents < kLeastHeldOut) {
    *note = fmt::format(
        "no samples are held out: the 5 % that can be spared have {}, fewer than {}; "
        "train.heldout may ask for more",
        Plural(contents, "different sample"), kLeastHeldOut);
    train.heldout.reset();
    return std::vector<uint32_t>();
  }
  if (!derives && chosen.empty()) {
    return BadInput(fmt::format(
        "train.heldout = {}: no sample can be spared, as each label keeps one; leave it "
        "out, or name a file of such samples by train.dev",
        wanted));
  }
  *note =
      fmt::format("{} held out, {} trained{}", Plural(chosen.size(), "sample is", "samples are"),
                  data.size() - chosen.size(),
                  chosen.size() < wanted ? "; more cannot be spared, as each label keeps one" : "");
  return chosen;
}

}  // namespace dslide
