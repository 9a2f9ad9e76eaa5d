// Keys of earlier versions, in stored configurations and in new ones.
#include "common/config/retired_keys.h"

#include <filesystem>
#include <ranges>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/os.h>

#include "common/base/temporary_directory.h"
#include "common/config/config_keys.h"
#include "common/config/stored_config.h"
#include "tests/support/results.h"

namespace dslide {
namespace {

std::string RefusalOf(const Result<Config>& config) {
  REQUIRE_FALSE(config.ok());
  CHECK(config.error().kind == ErrorKind::kBadInput);
  return config.error().message;
}

TEST_CASE("retired keys: every row is complete, and hides no value that users may set") {
  for (const RetiredKey& row : RetiredKeys()) {
    CAPTURE(row.key);
    CHECK_FALSE(row.remedy.empty());
    // A key that users set loses single values only, and this version refuses these.
    const ConfigKey* key = FindConfigKey(row.key);
    Config config;
    const bool is_set = key != nullptr && !IsStoredKey(row.key);
    if (is_set) CHECK_FALSE(row.value.empty());
    if (is_set) CHECK_FALSE(key->field.parse(std::string(row.value), &config));
    for (const auto setting : std::views::split(row.replacement, ' ')) {
      CHECK(LoadConfig("", {std::string(setting.begin(), setting.end())}).ok());
    }
    CHECK(FindRetiredKey(row.key, row.value) != nullptr);
  }
}

TEST_CASE("retired keys: a stored value keeps its meaning where this version has it") {
  const auto encryption = [](const char* text) {
    const Result<Config> config = ParseStoredConfig(text, "manifest");
    REQUIRE_MESSAGE(config.ok(), config.error().message);
    return config->security.encryption;
  };
  CHECK(encryption("[security]\nallow_plaintext = false\n") == Encryption::kAuto);
  CHECK(encryption("[security]\nallow_plaintext = true\n") == Encryption::kTrustedNetwork);
  CHECK(RefusalOf(ParseStoredConfig("[security]\nallow_plaintext = 1\n", "manifest"))
            .find("unknown key security.allow_plaintext") != std::string::npos);
}

TEST_CASE("retired keys: a model with SimHash tables is read without them, and not trained on") {
  // The derived k of SimHash is more than DWTA may have.
  const char* text = "[hash]\nfamily = simhash\nk = 9\n[model]\nactive = lsh\nsharing = sample\n";
  const Result<Config> config = ParseStoredConfig(text, "manifest");
  REQUIRE_MESSAGE(config.ok(), config.error().message);
  CHECK(config->model.active == ActiveSet::kMass);
  CHECK(config->model.sharing == Sharing::kBatch);
  std::vector<std::string> without_effect;
  CHECK(RefusalOf(ParseStoredConfig(text, "manifest", &without_effect))
            .find("release 0.1.0 continues such a run") != std::string::npos);
}

TEST_CASE("retired keys: a stored value without a meaning in this version gives one line") {
  std::vector<std::string> without_effect;
  const char* text = "[train]\nrace_share = 0.5\nepochs = 3\n";
  const Result<Config> config = ParseStoredConfig(text, "manifest", &without_effect);
  REQUIRE_MESSAGE(config.ok(), config.error().message);
  CHECK(config->train.epochs == 3);
  CHECK(without_effect ==
        std::vector<std::string>{"manifest:2: train.race_share = 0.5: this version does not have "
                                 "it; dslide tune tries settings as runs of their own"});
  REQUIRE(ParseStoredConfig("[train]\nrace_share = 0\n", "manifest", &without_effect).ok());
  CHECK(without_effect.empty());
}

TEST_CASE("retired keys: a stored active set that is gone is the nearest, and a line says so") {
  std::vector<std::string> lines;
  const char* text =
      "[model]\nactive = sampled\nsharing = batch\ntail = weighted\npopular = 12\nuniform = 13\n";
  Result<Config> config = ParseStoredConfig(text, "manifest", &lines);
  REQUIRE_MESSAGE(config.ok(), config.error().message);
  CHECK(config->model.active == ActiveSet::kMass);
  CHECK(lines == std::vector<std::string>{"manifest:2: model.active = sampled: this version does "
                                          "not have it and uses model.active=mass"});
  config = ParseStoredConfig("[model]\nactive = sampled\nsharing = sample\ntail = none\n",
                             "manifest", &lines);
  REQUIRE_MESSAGE(config.ok(), config.error().message);
  CHECK(config->model.active == ActiveSet::kMass);
  CHECK(config->model.sharing == Sharing::kBatch);
  CHECK(lines == std::vector<std::string>{
                     "manifest:2: model.active = sampled: this version does not have it and uses "
                     "model.active=mass",
                     "manifest:4: model.tail = none: this version does not have it; leave the key "
                     "out; neurons "
                     "that are drawn always stand for the others",
                     "model.sharing = sample: model.active = mass uses batch"});
  // No version had both.
  CHECK(RefusalOf(ParseStoredConfig("[model]\nactive = mass\nsharing = sample\n", "manifest"))
            .find("a batch shares its draws") != std::string::npos);
  config = ParseStoredConfig("[model]\nactive = lsh\nsharing = sample\npopular = 0\n", "manifest",
                             &lines);
  REQUIRE(config.ok());
  CHECK(config->model.sharing == Sharing::kSample);
  CHECK(lines.empty());
}

TEST_CASE("retired keys: a member does not join a run with another meaning of its settings") {
  CHECK(RefusalOf(ParseSchedulersConfig("[model]\nactive = sampled\n"))
            .find("model.active = sampled: this version does not have it") != std::string::npos);
  CHECK(ParseSchedulersConfig("[model]\nactive = mass\ntail = weighted\nuniform = 9\n").ok());
  CHECK(ParseSchedulersConfig("[security]\nallow_plaintext = true\n").ok());
}

TEST_CASE("retired keys: a new configuration has none, except a copy of a run's own file") {
  CHECK(RefusalOf(ParseConfig("[train]\nrace_share = 1\n", "cluster.ini", {})) ==
        "cluster.ini:2: train.race_share = 1: this version does not have it; dslide tune tries "
        "settings as runs of their own");
  CHECK(RefusalOf(ParseConfig("", "cluster.ini", {"train.race_share=0"})) ==
        "command line: train.race_share = 0: this version does not have it; leave the key out");
  CHECK(ParseConfig("[train]\nrace_share = 0\n", "config.ini", {}).ok());
}

TEST_CASE("retired keys: a run whose training this version would change is only read") {
  const char* text = "[train]\nbeta1 = 0.85\n";
  std::vector<std::string> lines;
  CHECK(RefusalOf(ParseStoredConfig(text, "manifest", &lines)) ==
        "manifest:2: train.beta1 = 0.85: this version does not have it; release 0.1.0 continues "
        "such a run");
  CHECK(ParseStoredConfig(text, "manifest").ok());  // for its predictions
  CHECK(RefusalOf(ParseSchedulersConfig(text)).find("train.beta1 = 0.85") != std::string::npos);
  CHECK(ParseStoredConfig("[train]\nbeta1 = 0.9\nepsilon = 1e-08\n", "manifest", &lines).ok());
  CHECK(lines.empty());
}

TEST_CASE("retired keys: a stored key keeps its stored value, and users do not set it") {
  const char* text = "[hash]\nbin = 4\n[train]\nunit_batches = 3\n";
  for (const Result<Config>& config :
       {ParseStoredConfig(text, "manifest"), ParseSchedulersConfig(text)}) {
    REQUIRE_MESSAGE(config.ok(), config.error().message);
    CHECK(config->hash.bin == 4);
    CHECK(config->train.unit_batches == 3);
  }
  CHECK(RefusalOf(ParseConfig("[hash]\nbin = 4\n", "cluster.ini", {})) ==
        "cluster.ini:2: hash.bin = 4: no setting; leave the key out");
  CHECK(RefusalOf(ParseConfig("", "cluster.ini", {"train.unit_batches=3"})) ==
        "command line: train.unit_batches = 3: no setting; leave the key out");
  // A file may be a copy of a run's, whose derived values are of other data.
  const Config copy =
      Ok(ParseConfig("[hash]\nbin = 8\n[train]\nunit_batches = 3\n", "config.ini", {}));
  CHECK(copy.train.unit_batches == TrainConfig().unit_batches);
}

TEST_CASE("retired keys: config.ini beside a ledger is a stored configuration") {
  const TemporaryDirectory directory("retired-");
  const std::string path = directory.path() + "/config.ini";
  fmt::output_file(path).print("[train]\nrace_share = 0.5\n");
  CHECK_FALSE(LoadConfig(path, {}).ok());
  std::filesystem::create_directory(directory.path() + "/ledger");
  CHECK(LoadConfig(path, {}).ok());
  CHECK_FALSE(LoadConfig(path, {"train.race_share=0.5"}).ok());
}

}  // namespace
}  // namespace dslide
