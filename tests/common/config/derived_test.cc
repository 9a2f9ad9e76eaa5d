// What the configuration derives from data and machine, by hand.
#include <cmath>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "common/config/config.h"
#include "common/config/config_keys.h"
#include "common/config/limits.h"
#include "common/config/stored_config.h"
#include "common/config/value_scale.h"
#include "tests/common/config/parsed_config.h"
#include "tests/support/results.h"

namespace dslide {

TEST_CASE("config: resolving") {
  struct Case {
    uint32_t d, n;
    ActiveSet active;
    uint32_t k, slots;
  };
  // k: the largest with N / 2^(3k) at least 8, up to 2^15 buckets.
  const Case cases[] = {
      {1, 1, ActiveSet::kAll, 1, 1},
      {100, 191, ActiveSet::kAll, 1, 100},
      {10'000, 2000, ActiveSet::kAll, 2, 256},
      {10'000, 2001, ActiveSet::kMass, 2, 256},
      {136'000, 30'938, ActiveSet::kMass, 3, 256},
      {136'000, 41'218, ActiveSet::kMass, 4, 256},
      {50, 262'143, ActiveSet::kMass, 4, 50},
      {50, 262'144, ActiveSet::kMass, 5, 50},
      {136'000, 670'091, ActiveSet::kMass, 5, 256},
      {4'000'000'000, 4'000'000'000, ActiveSet::kMass, 5, 256},
  };
  for (const Case& c : cases) {
    CAPTURE(c.n);
    Config config;
    ResolveConfig(c.d, c.n, &config);
    CHECK(config.model.features == c.d);
    CHECK(config.model.labels == c.n);
    CHECK(config.model.active == c.active);
    CHECK(config.hash.k == c.k);
    CHECK(config.model.candidates == std::min(ModelConfig().candidates, c.n));
    CHECK(config.model.negatives == std::min(ModelConfig().negatives, c.n));
    CHECK(config.train.learning_rate == doctest::Approx(0.05 * std::sqrt(2.0)));
    CHECK(config.cluster.slots == c.slots);
    CHECK(config.cluster.input_slots == (c.slots < 32 ? 0 : static_cast<int32_t>(c.slots) / 4));
    CHECK(config.model.output_init == doctest::Approx(1.0 / std::sqrt(512.0)));

    Config again = config;
    ResolveConfig(c.d, c.n, &again);
    CHECK(again == config);
    CHECK(*ParseStoredConfig(FormatConfig(config), "stored") == config);

    Config own;
    own.model.sharing = Sharing::kSample;
    ResolveConfig(c.d, c.n, &own);
    CHECK(own.model.active == (c.n > 2000 ? ActiveSet::kLsh : ActiveSet::kAll));
  }
}

TEST_CASE("config: the derived rate of SGD follows the loss") {
  const auto derived = [](Loss loss, uint32_t hidden) {
    Config config;
    config.train.optimizer = OptimizerKind::kSgd;
    config.model.loss = loss;
    config.model.hidden = hidden;
    ResolveConfig(1000, 5000, &config);
    return config.train.learning_rate;
  };
  CHECK(derived(Loss::kSoftmax, 512) == 1.0f);
  CHECK(derived(Loss::kSigmoid, 128) == doctest::Approx(0.1));
  CHECK(derived(Loss::kSigmoid, 512) == doctest::Approx(0.05));
}

TEST_CASE("config: the derived rate follows hidden width and batch, K the width") {
  Config wide;
  wide.model.hidden = 2048;
  wide.train.batch = 256;
  ResolveConfig(1000, 100'000, &wide);
  CHECK(wide.train.learning_rate == doctest::Approx(0.025));
  CHECK(wide.hash.k == 4);
  Config large;
  large.train.batch = 1024;
  ResolveConfig(1000, 100'000, &large);
  CHECK(large.train.learning_rate == doctest::Approx(0.1));
  // The K bins of a DWTA table are disjoint: 16 coordinates have room for two bins of 8.
  Config narrow;
  narrow.model.hidden = 16;
  ResolveConfig(1000, 100'000, &narrow);
  CHECK(narrow.hash.k == 2);
}

TEST_CASE("config: resolving keeps what the user chose") {
  Config config = Parsed("[model]\nactive = lsh\n[hash]\nk = 5\n");
  ResolveConfig(1000, 1000, &config);
  CHECK(config.model.active == ActiveSet::kLsh);
  CHECK(config.hash.k == 5);
}

TEST_CASE("config: dropout and smoothing that were set hold for every kind of model") {
  for (const char* kind : {"", "[model]\nneurons = centroids\n", "[text]\nformat = words\n",
                           "[text]\nformat = sessions\n", "[train]\nopen_vocabulary = true\n"}) {
    CAPTURE(kind);
    for (const auto& [dropout, smoothing] : {std::pair(0.4f, 0.2f), {0.0f, 0.0f}}) {
      Config config = Parsed(kind, {fmt::format("train.dropout_hidden={}", dropout),
                                    fmt::format("train.label_smoothing={}", smoothing)});
      ResolveConfig(100'000, 100'000, &config);
      CHECK(config.train.dropout_hidden == dropout);
      CHECK(config.train.label_smoothing == smoothing);
      const std::string text = FormatConfig(config);
      CHECK(text.find(fmt::format("\ndropout_hidden = {}\n", dropout)) != std::string::npos);
      CHECK(text.find(fmt::format("\nlabel_smoothing = {}\n", smoothing)) != std::string::npos);
    }
  }
}

namespace {

// A value that is legal for `key` and that nobody derives.
std::string ChosenValue(const ConfigKey& key) {
  static const std::map<std::string, std::string> values = {
      {"model.loss", "sigmoid"},
      {"model.neurons", "learned"},
      {"model.active", "lsh"},
      {"model.sharing", "sample"},
      {"model.precision", "fp32"},
      {"hash.k", "3"},
      {"train.optimizer", "adam"},
      {"train.decay", "cosine"},
      {"train.dropout_hidden", "0.3"},
      {"train.label_smoothing", "0.3"},
      {"train.normalize", "3"},
      {"train.learning_rate", "0.3"},
      {"train.batch", "40"},
      {"train.epochs", "3"},
      {"train.audit", "0"},
      {"cluster.slots", "40"},
      {"cluster.input_slots", "9"},
      {"model.hidden", "33"},
  };
  const auto found = values.find(key.FullName());
  return found == values.end() ? "" : found->second;
}

}  // namespace

TEST_CASE("config: no value that was set is replaced by a derived one") {
  // Each key for itself, for every kind of data, against what the key has in the table's text.
  for (const char* kind : {"", "text.format=words", "text.format=sessions", "train.staleness=0"}) {
    for (const double repeats : {1.0, 100.0}) {
      for (const ConfigKey& key : ConfigKeys()) {
        const std::string value = ChosenValue(key);
        if (value.empty()) continue;
        Overrides set = {key.FullName() + "=" + value};
        if (*kind != '\0') set.push_back(kind);
        const Result<Config> asked = ParseConfig("", "test", set);
        if (!asked.ok()) continue;  // refused with the reason
        Config config = *asked;
        ResolveConfig(5000, 9000, &config, {40'000, repeats});
        CAPTURE(kind);
        const std::string resolved = key.field.format(config);
        const bool told = !LoweredValues(*asked, config, {key.FullName()}).empty();
        CHECK_MESSAGE((resolved == value || told), key.FullName());
      }
    }
  }
}

TEST_CASE(
    "config: values above the size of the data are lowered, and those that were set are told") {
  const Overrides set = {"model.negatives=3000", "cluster.slots=300", "cluster.input_slots=60"};
  Config asked = Parsed("", set);
  const std::set<std::string> given = *GivenKeys("", set);
  CHECK(given == std::set<std::string>{"model.negatives", "cluster.slots", "cluster.input_slots"});
  Config resolved = asked;
  ResolveConfig(1000, 50, &resolved);
  CHECK(resolved.cluster.slots == 50);
  CHECK(LoweredValues(asked, resolved, given) ==
        std::vector<std::string>{
            "model.negatives = 3000 is lowered to 50: the data has 50 labels and 1000 features",
            "cluster.slots = 300 is lowered to 50: the data has 50 labels and 1000 features",
            "cluster.input_slots = 60 is lowered to 12: the data has 50 labels and 1000 features"});
  CHECK(LoweredValues(asked, resolved, {}).empty());  // nobody asked for the defaults
  CHECK(LoweredValues(resolved, resolved, given).empty());
}

TEST_CASE("config: words and sessions have linear hidden units and nothing left out") {
  for (const TextFormat format : {TextFormat::kWords, TextFormat::kSessions}) {
    Config config;
    config.text.format = format;
    ResolveConfig(100'000, 100'000, &config, {.label_repeats = 1.0});
    CHECK(IsLinear(config.model));
    CHECK(config.model.neurons == Neurons::kLearned);
    CHECK(config.train.dropout_hidden == 0.0f);
    CHECK(config.train.label_smoothing == 0.0f);
    CHECK(config.train.epochs == 5);
    const float factor = format == TextFormat::kWords ? 2.5f : 1.0f;
    Config records;
    ResolveConfig(100'000, 100'000, &records);
    CHECK(config.train.learning_rate == doctest::Approx(factor * records.train.learning_rate));
    Config again = config;
    ResolveConfig(100'000, 100'000, &again);
    CHECK(again == config);
  }
  Config of_records;
  ResolveConfig(1000, 1000, &of_records);
  CHECK(of_records.model.activation == Activation::kRelu);
  Config chosen = Parsed("[text]\nformat = words\n");
  chosen.model.activation = Activation::kRelu;  // of a stored run
  ResolveConfig(1000, 1000, &chosen);
  CHECK(chosen.model.activation == Activation::kRelu);
}

TEST_CASE("config: effort decides hidden units, epochs, dropout and smoothing that are not given") {
  const DataFacts rare{.samples = 100'000, .label_repeats = 50, .median_label = 1};
  const DataFacts frequent{.samples = 100'000, .label_repeats = 50, .median_label = 50};
  struct Expected {
    const char* effort;
    uint32_t hidden, epochs;
    float dropout, high_dropout, smoothing;
  };
  for (const Expected& e :
       {Expected{"fast", 256, 4, 0.1f, 0.25f, 0.1f}, Expected{"normal", 512, 8, 0.1f, 0.5f, 0.1f},
        Expected{"best", 1024, 12, 0.3f, 0.5f, 0.2f}}) {
    CAPTURE(e.effort);
    const std::string effort = std::string("train.effort=") + e.effort;
    for (const DataFacts& facts : {rare, frequent}) {
      Config config = *LoadConfig("", {effort});
      CHECK(config.model.hidden == e.hidden);
      ResolveConfig(50'000, 20'000, &config, facts);
      CHECK(config.train.epochs == e.epochs);
      CHECK(config.train.dropout_hidden == (facts.median_label == 1 ? e.dropout : e.high_dropout));
      CHECK(config.train.label_smoothing == e.smoothing);
      CHECK(config.train.cooldown_epochs.has_value() == (e.hidden == 1024));
      CHECK(config.train.late_dropout.has_value() == (e.hidden == 1024));
      // Derived values stay when the stored configuration is read.
      CHECK(*ParseStoredConfig(FormatConfig(config), "stored") == config);
    }
    Config given = *LoadConfig("", {effort, "model.hidden=100", "train.epochs=3",
                                    "train.dropout_hidden=0.2", "train.label_smoothing=0.05"});
    ResolveConfig(50'000, 20'000, &given, rare);
    CHECK(given.model.hidden == 100);
    CHECK(given.train.epochs == 3);
    CHECK(given.train.dropout_hidden == 0.2f);
    CHECK(given.train.label_smoothing == 0.05f);
  }
}

TEST_CASE("config: dropout by how many samples most labels have") {
  const auto dropout = [](uint64_t median_label, const std::string& text = "") {
    Config config = Parsed(text);
    ResolveConfig(1000, 5000, &config, {.median_label = median_label});
    return config.train.dropout_hidden;
  };
  CHECK(dropout(0) == 0.1f);
  CHECK(dropout(9) == 0.1f);
  CHECK(dropout(10) == 0.5f);
  CHECK(dropout(10, "[model]\nhidden = 127\n") == 0.1f);
  CHECK(dropout(10, "[train]\ndropout_hidden = 0.2\n") == 0.2f);
  CHECK(dropout(10, "[text]\nformat = words\n") == 0.0f);
  CHECK(dropout(10, "[model]\nneurons = centroids\n") == 0.0f);
}

TEST_CASE("config: more epochs by the command line than the schedule of a file has extend it") {
  const std::string file = "[train]\nepochs = 9\nschedule_epochs = 12\ncooldown_epochs = 2\n";
  CHECK(ParseConfig(file, "config.ini", {"train.epochs=12"})->train.schedule_epochs == 12);
  const Result<Config> more = ParseConfig(file, "config.ini", {"train.epochs=17"});
  REQUIRE(more.ok());
  CHECK(more->train.epochs == 17);
  CHECK(more->train.schedule_epochs == 0);
  const Result<Config> both =
      ParseConfig("", "config.ini", {"train.epochs=17", "train.schedule_epochs=12"});
  REQUIRE_FALSE(both.ok());
  CHECK(both.error().message ==
        "command line: train.schedule_epochs = 12: train.epochs is 17: give as many or more");
  CHECK_FALSE(ParseConfig("[train]\nepochs = 9\nschedule_epochs = 8\n", "config.ini", {}).ok());
}

TEST_CASE("config: a lower rate where a user's own things do not count") {
  Config config, own = Parsed("[train]\nexclude_own_features = true\n");
  ResolveConfig(1000, 5000, &config);
  ResolveConfig(1000, 5000, &own);
  CHECK(own.train.learning_rate == config.train.learning_rate / 2);
}

TEST_CASE(
    "config: nothing is left to held-out samples where there are none, or nothing to choose") {
  const auto decided = [](const std::string& text) {
    Config config = Parsed(text);
    ResolveConfig(1000, 5000, &config);
    return std::pair(config.train.late_dropout, config.train.cooldown_epochs);
  };
  const auto open = std::pair(std::optional<uint32_t>(), std::optional<uint32_t>());
  const auto none = std::pair(std::optional(0u), std::optional(0u));
  CHECK(decided("") == open);
  CHECK(decided("[train]\nheldout = 0\n") == none);
  CHECK(decided("[train]\nheldout = 0\ndev = dev.txt\n") == open);
  CHECK(decided("[model]\nneurons = centroids\n") == none);
  CHECK(decided("[train]\nopen_vocabulary = true\n") == none);
  CHECK(decided("[train]\nheldout = 0\nlate_dropout = 3\n") ==
        std::pair(std::optional(3u), std::optional(0u)));
}

TEST_CASE("config: more negatives are left to the run where it draws some and measures them") {
  const auto late = [](const std::string& text, uint32_t labels = 50'000) {
    Config config = Parsed(text);
    ResolveConfig(1000, labels, &config);
    return config.train.late_negatives;
  };
  CHECK(late("") == std::nullopt);
  CHECK(late("[train]\neffort = best\n") == std::nullopt);
  CHECK(late("", 10'000) == 0);  // 2,500 are a quarter of them
  CHECK(late("", kMaxLabelsForAll) == 0);
  CHECK(late("[train]\neffort = fast\n") == 0);
  CHECK(late("[train]\nheldout = 0\n") == 0);
  CHECK(late("[train]\nstaleness = 0\n") == 0);
  CHECK(late("[model]\nloss = sigmoid\n") == 0);
  CHECK(late("[model]\nsharing = sample\n") == 0);
  CHECK(late("[model]\nneurons = centroids\n") == 0);
  CHECK(late("[train]\nopen_vocabulary = true\n") == 0);
  CHECK(late("[train]\nstaleness = 0\nlate_negatives = 3\n") == 3);
}

TEST_CASE("config: neurons of rare labels are centroids") {
  const auto resolved = [](uint32_t labels, double repeats, Config config = {}) {
    ResolveConfig(1000, labels, &config, {.label_repeats = repeats});
    Config again = config;
    ResolveConfig(1000, labels, &again);
    CHECK(again == config);
    return config;
  };
  const Config rare = resolved(100'000, 16.0);
  CHECK(rare.model.neurons == Neurons::kCentroids);
  CHECK(rare.model.input_init == 1.0f);
  CHECK(rare.model.active == ActiveSet::kLsh);
  CHECK(rare.train.dropout_hidden == 0.0f);
  CHECK(rare.train.label_smoothing == 0.0f);
  const Config learned = resolved(100'000, 16.1);
  CHECK(learned.model.neurons == Neurons::kLearned);
  CHECK(learned.model.input_init == 0.005f);
  CHECK(learned.model.active == ActiveSet::kMass);
  CHECK(learned.train.dropout_hidden == 0.1f);
  CHECK(learned.train.label_smoothing == 0.1f);
  CHECK(rare.train.learning_rate == doctest::Approx(5 * learned.train.learning_rate));
  // Few labels are all computed, and the sigmoid and a sample's own neurons have no centroids.
  CHECK(resolved(2000, 1.0).model.neurons == Neurons::kLearned);
  Config other;
  other.train.staleness = 0;
  CHECK(resolved(100'000, 1.0, other).model.active == ActiveSet::kMass);
  other.train.staleness = -1;
  other.model.loss = Loss::kSigmoid;
  CHECK(resolved(100'000, 1.0, other).model.neurons == Neurons::kLearned);
  other.model.loss = Loss::kSoftmax;
  other.model.sharing = Sharing::kSample;
  CHECK(resolved(100'000, 1.0, other).model.neurons == Neurons::kLearned);
}

TEST_CASE("config: few samples have smaller batches and more epochs, and learned neurons") {
  struct Case {
    uint64_t samples;
    uint32_t batch, epochs;
    double rate;
  };
  const Case cases[] = {
      {1, 128, 16, 0.0354},      {14'999, 128, 16, 0.0354},    {15'000, 256, 12, 0.05},
      {29'999, 256, 12, 0.05},   {30'000, 512, 8, 0.0707},     {90'452, 512, 8, 0.0707},
      {231'034, 512, 8, 0.0707}, {UINT64_MAX, 512, 8, 0.0707},
  };
  for (const Case& c : cases) {
    CAPTURE(c.samples);
    Config config;
    ResolveConfig(1000, 5000, &config, {c.samples, 3.0});
    CHECK(config.train.batch == c.batch);
    CHECK(config.train.epochs == c.epochs);
    CHECK(config.train.warmup_batches == 200);
    const bool centroids = config.model.neurons == Neurons::kCentroids;
    CHECK(centroids == (c.samples >= 30'000));
    CHECK(config.train.learning_rate ==
          doctest::Approx(c.rate * (centroids ? 5 : 1)).epsilon(0.01));
    Config again = config;
    ResolveConfig(1000, 5000, &again);
    CHECK(again == config);
  }
  Config own = Parsed("[train]\nbatch = 300\nepochs = 3\n[model]\nneurons = centroids\n");
  ResolveConfig(1000, 5000, &own, {2000, 3.0});
  CHECK(own.train.batch == 300);
  CHECK(own.train.epochs == 3);
  CHECK(own.model.neurons == Neurons::kCentroids);
  Config steps = Parsed("[train]\nstaleness = 0\ntarget_batch = 1024\n");
  ResolveConfig(1000, 5000, &steps, {2000, 3.0});
  CHECK(steps.train.target_batch % steps.train.batch == 0);
}

TEST_CASE(
    "config: samples that are far longer or shorter than 1 are divided by their median length") {
  const auto divisor = [](float median_length, const char* text = "") {
    Config config = Parsed(text);
    ResolveNormalize(median_length, &config.train);
    ResolveConfig(1000, 5000, &config);
    Config again = *ParseStoredConfig(FormatConfig(config), "stored");
    ResolveNormalize(77, &again.train);  // stored: it stays
    CHECK(again == config);
    return ValueDivisor(config.train);
  };
  for (const float usual : {0.1f, 0.5f, 1.0f, 10.0f}) CHECK(divisor(usual) == 1.0f);
  for (const float other : {0.0999f, 10.001f, 139.6f, 1e-12f, 1e20f}) {
    CHECK(divisor(other) == other);
  }
  CHECK(divisor(1e-38f) == 1e-30f);  // the least that the key has
  CHECK(divisor(139.6f, "[train]\nnormalize = off\n") == 1.0f);
  CHECK(divisor(139.6f, "[train]\nnormalize = 2.5\n") == 2.5f);
  CHECK(divisor(1.0f, "[train]\nnormalize = 2.5\n") == 2.5f);
  CHECK(divisor(139.6f, "[train]\nnormalize = auto\n") == 139.6f);
  Config unknown;
  ResolveConfig(1000, 5000, &unknown);
  CHECK(unknown.train.normalize == 1.0f);
}

TEST_CASE("config: a stored configuration without keys that change the model has them off") {
  const Config old = Ok(ParseStoredConfig("[train]\nbatch = 64\n", "a manifest"));
  CHECK(old.train.normalize == 1.0f);
  CHECK(old.train.heldout == 0);
  const Config scaled = Ok(ParseStoredConfig("[train]\nnormalize = 139.6\n", "a manifest"));
  CHECK(scaled.train.normalize == 139.6f);
}

TEST_CASE("config: what was derived for training, as a line") {
  Config config;
  ResolveConfig(1000, 5000, &config, {2000, 3.0});
  CHECK(TrainingText(config) ==
        "H = 512, neurons learned, batches of 128, 16 epochs, learning rate 0.035, effort normal");
  Config one = Parsed("[train]\nepochs = 1\nbatch = 64\nlearning_rate = 0.1\n");
  one.model.neurons = Neurons::kCentroids;
  ResolveConfig(1000, 5000, &one);
  CHECK(TrainingText(one) ==
        "H = 512, neurons centroids, batches of 64, 1 epoch, learning rate 0.1, effort normal");
  one.train.normalize = 139.64f;
  CHECK(TrainingText(one) ==
        "H = 512, neurons centroids, batches of 64, 1 epoch, learning rate 0.1, values divided by "
        "139.6, effort normal");
}

}  // namespace dslide
