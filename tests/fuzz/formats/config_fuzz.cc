// INI text: of users, of JoinReply, of manifests and of model files.
#include "common/config/config.h"

#include "tests/fuzz/fuzz_target.h"

namespace dslide::config_fuzz {
namespace {

using fuzz::Inputs;

bool Run(std::string_view input) {
  // The first line overrides the rest, as --set does.
  const size_t line = input.find('\n');
  if (line != std::string_view::npos) {
    (void)fuzz::Accepted(
        ParseConfig(input.substr(line + 1), "run.ini", {std::string(input.substr(0, line))}));
  }
  const Result<Config> config = ParseConfig(input, "run.ini");
  if (!fuzz::Accepted(config)) return false;
  const Result<Config> again = ParseConfig(FormatConfig(*config), "again");
  DSLIDE_CHECK(again.ok() && *again == *config);
  Config resolved = *config;
  ResolveConfig(1000, 100'000, &resolved, {.samples = 5000, .label_repeats = 2});
  const Config once = resolved;
  ResolveConfig(1000, 100'000, &resolved, {.samples = 5000, .label_repeats = 2});
  DSLIDE_CHECK(resolved == once);
  return true;
}

Inputs Seeds() {
  return {FormatConfig({}),
          "[model]\nhidden = 64\nactive = lsh\n[train]\ndata=a.txt # comment\nepochs = 3\n",
          "model.hidden=32\n[model]\nloss = sigmoid\n",
          "train.batch=7\n[cluster]\nslots = 8\nwire = int8\n[security]\nencryption = always\n",
          "[train]\nlearning_rate = 1e-3\nstaleness = -1\n[text]\nstem = german\n",
          "[model]\nhiden = 3\n",
          "hidden = 3\n",
          "[model\n",
          "[model]\nhidden = 1e99\n"};
}

const fuzz::Entered kEntered({"config", Run, Seeds});

}  // namespace
}  // namespace dslide::config_fuzz
