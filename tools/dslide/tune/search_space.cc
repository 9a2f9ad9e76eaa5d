#include "tools/dslide/tune/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "common/app/limits.h"
#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/base/random.h"
#include "common/config/config_keys.h"
#include "common/config/retired_keys.h"
#include "common/config/small_text.h"

namespace dslide {
namespace {

constexpr char kRate[] = "train.learning_rate";
constexpr char kHidden[] = "model.hidden";
constexpr char kDropout[] = "train.dropout_hidden";
constexpr char kEpochs[] = "train.epochs";
constexpr char kBatch[] = "train.batch";
constexpr char kWarmup[] = "train.warmup_batches";

// Found by the data, not by trials, or without a meaning for the model.
bool IsSearchable(const ConfigKey& key) {
  const std::string name = key.FullName();
  if (IsStoredKey(name)) return false;
  for (const char* given : {"train.data", "train.test", "train.dev", "train.heldout",
                            "train.label_names", "common.log_level"}) {
    if (name == given) return false;
  }
  return key.section == "model" || key.section == "hash" || key.section == "train" ||
         key.section == "text" || key.section == "common";
}

std::string ValueOf(const Config& config, const std::string& name) {
  const ConfigKey* key = FindConfigKey(name);
  DSLIDE_CHECK(key != nullptr);
  return key->field.format(config);
}

// The value that a candidate has without the search; dropout may be derived.
std::string StartingValue(const Config& base, const Config& effective, const std::string& name) {
  return ValueOf(name == kDropout ? effective : base, name);
}

void Set(const std::string& name, const std::string& value, Config* config) {
  DSLIDE_CHECK(FindConfigKey(name)->field.parse(value, config));
}

// "0.5x" of the learning rate.
std::optional<double> FactorOf(const std::string& key, std::string_view value) {
  if (key != kRate || !value.ends_with('x')) return std::nullopt;
  const std::optional<double> factor = ParseNumber<double>(value.substr(0, value.size() - 1));
  return factor && *factor > 0 && *factor <= 1000 ? factor : std::nullopt;
}

Error Refused(const std::string& text, const std::string& why) {
  return BadInput(fmt::format("--search {}: {}", Printable(text), why));
}

// The values of "a, b,c" as the configuration writes them; each may be used with `base`.
Status AddValues(const std::string& text, std::string_view list, const Config& base,
                 SearchAxis* axis) {
  for (bool more = true; more;) {
    const size_t comma = list.find(',');
    std::string value(Stripped(list.substr(0, comma)));
    more = comma != std::string_view::npos;
    if (more) list.remove_prefix(comma + 1);
    if (value.empty()) return Refused(text, "a value is empty");
    if (value == "0" && (axis->key == kEpochs || axis->key == kBatch)) {
      return Refused(text, "0 is derived from the data; name numbers");
    }
    if (!FactorOf(axis->key, value)) {
      const Result<Config> config = WithSettings(base, {{axis->key, value}});
      if (!config.ok()) return Refused(text, config.error().message);
      value = ValueOf(*config, axis->key);
    }
    if (std::ranges::count(axis->values, value) > 0) {
      return Refused(text, fmt::format("{} is given twice", value));
    }
    axis->values.push_back(std::move(value));
  }
  return {};
}

// The learning rate that a candidate has without the search, three digits of its product with
// `factor`.
std::string RateText(const Config& config, const Config& effective, double factor) {
  Config resolved = config;
  if (resolved.model.neurons == Neurons::kAuto) resolved.model.neurons = effective.model.neurons;
  ResolveConfig(effective.model.features, effective.model.labels, &resolved);
  return fmt::format("{:.3g}", std::min(100.0, factor * resolved.train.learning_rate));
}

// An epoch's time: about half of it does not depend on the hidden units.
double WeightOf(const Config& config, const Config& base) {
  const double ratio = 1.0 * config.model.hidden / base.model.hidden;
  return ratio >= 1 ? ratio : (1 + ratio) / 2;
}

// The combination with that number; nullopt: the configuration refuses it.
std::optional<Candidate> Combine(const Config& base, const Config& effective,
                                 const std::vector<SearchAxis>& axes, uint64_t number) {
  Config config = base;
  double factor = 1;
  for (const SearchAxis& axis : axes) {
    const std::string& value = axis.values[number % axis.values.size()];
    number /= axis.values.size();
    const std::optional<double> rate_factor = FactorOf(axis.key, value);
    if (rate_factor) {
      factor = *rate_factor;
    } else {
      Set(axis.key, value, &config);
    }
  }
  if (factor != 1) Set(kRate, RateText(config, effective, factor), &config);
  Candidate candidate;
  candidate.epochs = config.train.epochs;
  candidate.warmup = WarmupBatches(config.train);
  candidate.weight = WeightOf(config, base);
  for (const SearchAxis& axis : axes) {
    const std::string value = ValueOf(config, axis.key);
    if (value != StartingValue(base, effective, axis.key)) candidate.settings[axis.key] = value;
  }
  if (!WithSettings(base, candidate.settings).ok()) return std::nullopt;
  return candidate;
}

std::string NumberText(double value) { return fmt::format("{:g}", value); }

template <typename T>
void AddOnce(const T& value, std::vector<T>* values) {
  if (std::ranges::count(*values, value) == 0) values->push_back(value);
}

}  // namespace

Result<SearchAxis> ParseSearch(const std::string& text, const Config& base) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return Refused(text, "must be section.key=value,value");
  SearchAxis axis;
  axis.key = Stripped(std::string_view(text).substr(0, equals));
  const ConfigKey* key = FindConfigKey(axis.key);
  if (key == nullptr) {
    // The configuration names the nearest key.
    const Result<Config> unknown = ParseConfig("", "--search", {axis.key + "="});
    return unknown.ok() ? Refused(text, "unknown key") : Refused(text, unknown.error().message);
  }
  if (!IsSearchable(*key)) {
    return Refused(text, axis.key + " is not a setting of the model or the training; use --set");
  }
  DSLIDE_RETURN_IF_ERROR(AddValues(text, std::string_view(text).substr(equals + 1), base, &axis));
  return axis;
}

Result<std::vector<SearchAxis>> ParseSearches(const std::vector<std::string>& texts,
                                              const Config& base) {
  std::vector<SearchAxis> axes;
  uint64_t combinations = 1;
  for (const std::string& text : texts) {
    Result<SearchAxis> axis = ParseSearch(text, base);
    DSLIDE_RETURN_IF_ERROR(axis);
    for (const SearchAxis& other : axes) {
      if (other.key == axis->key) return Refused(text, axis->key + " is given twice");
    }
    constexpr uint64_t kMostCombinations = 1'000'000'000;
    combinations *= axis->values.size();
    if (combinations > kMostCombinations) {
      return Refused(text, "makes more than a billion combinations; name fewer values");
    }
    axes.push_back(std::move(*axis));
  }
  const auto varies = [&](const SearchAxis& axis) {
    const std::string& first = axis.values.front();
    return axis.values.size() > 1 ||
           (FactorOf(axis.key, first) != 1 && first != ValueOf(base, axis.key));
  };
  if (!axes.empty() && std::ranges::none_of(axes, varies)) {
    return Refused(texts.front(), "is what the configuration has; name other values");
  }
  return axes;
}

std::vector<SearchAxis> DefaultAxes(const Config& base, const Config& effective) {
  const uint32_t hidden = base.model.hidden, epochs = base.train.epochs;
  SearchAxis widths{kHidden, {}}, lengths{kEpochs, {}}, dropouts{kDropout, {}};
  if (!base.model.dense.empty()) AddOnce(HiddenText(base.model), &widths.values);
  for (const uint32_t h :
       {hidden, std::max(1u, hidden / 2), std::min(kMostHiddenUnits, hidden * 2)}) {
    if (base.model.dense.empty()) AddOnce(std::to_string(h), &widths.values);
  }
  const uint32_t least = std::min(LeastEpochs(effective), epochs);
  for (const uint32_t e : {epochs, std::max(least, epochs / 2), epochs + epochs / 2}) {
    AddOnce(std::to_string(std::min(e, kMostEpochs)), &lengths.values);
  }
  AddOnce(StartingValue(base, effective, kDropout), &dropouts.values);
  for (const double share : {0.0, 0.05, 0.1, 0.2, 0.35}) {
    AddOnce(NumberText(share), &dropouts.values);
  }
  std::vector<SearchAxis> axes = {
      {kRate, {"1x", "0.4x", "0.63x", "1.6x", "2.5x"}}, std::move(widths), std::move(lengths)};
  if (LearnsNeurons(effective.model)) axes.push_back(std::move(dropouts));
  return axes;
}

uint32_t LeastEpochs(const Config& effective) { return LearnsNeurons(effective.model) ? 1 : 3; }

std::vector<Candidate> DrawCandidates(const Config& base, const Config& effective,
                                      const std::vector<SearchAxis>& axes, uint32_t count,
                                      uint64_t seed) {
  constexpr uint64_t kStream = 0x74756e65;  // of this use of the seed
  uint64_t combinations = 1;
  for (const SearchAxis& axis : axes) combinations *= axis.values.size();
  std::vector<Candidate> candidates;
  candidates.push_back({{}, base.train.epochs, WarmupBatches(base.train), 1});
  std::set<uint64_t> drawn;
  std::set<KeyValues> seen = {{}};
  Random random(SubSeed(seed, kStream));
  while (candidates.size() < count && drawn.size() < combinations) {
    const uint64_t number = random.Below(combinations);
    if (!drawn.insert(number).second) continue;
    std::optional<Candidate> candidate = Combine(base, effective, axes, number);
    if (candidate && seen.insert(candidate->settings).second) {
      candidates.push_back(std::move(*candidate));
    }
  }
  return candidates;
}

KeyValues SettingsOfRun(const Candidate& candidate, const Config& base, uint32_t epochs) {
  KeyValues settings = candidate.settings;
  settings.erase(kEpochs);
  settings.erase(kWarmup);
  if (epochs != base.train.epochs) settings[kEpochs] = std::to_string(epochs);
  uint32_t warmup = candidate.warmup;
  if (epochs < candidate.epochs && warmup > 0) {
    const double share = 1.0 * epochs / candidate.epochs;
    warmup = std::max(1u, static_cast<uint32_t>(std::lround(warmup * share)));
  }
  if (warmup != WarmupBatches(base.train)) settings[kWarmup] = std::to_string(warmup);
  return settings;
}

Result<Config> WithSettings(const Config& base, const KeyValues& settings) {
  Overrides overrides;
  for (const auto& [key, value] : settings) overrides.push_back(key + "=" + value);
  return ParseConfig(FormatConfig(base), "configuration", overrides);
}

}  // namespace dslide
