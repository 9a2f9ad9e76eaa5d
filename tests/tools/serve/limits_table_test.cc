// The documents say the limits that the code has.
#include "common/app/limits.h"

#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/config/config_keys.h"
#include "common/data/whole_file.h"
#include "common/text/open_vocabulary.h"
#include "common/wire/messages.h"
#include "server/executor/executor.h"
#include "tools/dslide/serve/prediction.h"

namespace dslide {
namespace {

std::string Document(const std::string& path) {
  return *ReadWholeFile(std::string(DSLIDE_SOURCE_DIR) + "/" + path);
}

// With commas: "100,000".
std::string Counted(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string Table() {
  const auto value = Counted(static_cast<uint64_t>(kMostFeatureValue));
  const auto weight = Counted(static_cast<uint64_t>(kMostSampleWeight));
  std::string table = "| what | limit | where |\n|---|---|---|\n";
  const auto row = [&](const std::string& what, const std::string& limit,
                       const std::string& where) {
    table += fmt::format("| {} | {} | {} |\n", what, limit, where);
  };
  row("value of a feature", fmt::format("-{} to {}", value, value),
      "files of numbers, HTTP, Python");
  row("weight of a sample", "0 to " + weight, "files, Python");
  row("features of a model", Counted(kMostFeatures), "all");
  row("labels of a model", Counted(kMostLabels), "all");
  row("line of a file or stream", fmt::format("{} MiB", kMaxLineBytes >> 20), "files");
  row("levels of a JSON text", Counted(kMostJsonDepth), "files, HTTP");
  row("name of a label or word of a stream",
      Counted(OpenVocabulary::kLongestLabel) + " bytes; a longer one is left out",
      "`train.open_vocabulary`");
  row("labels of a sample", Counted(kMaxTopK), "`dslide predict --top-k`, `dslide evaluate --at`");
  row("labels of a sample", Counted(kMostServedLabels), "HTTP: `k`, `limit`");
  row("samples of a request", Counted(kMostServedSamples), "HTTP");
  row("samples x labels of a request", Counted(kMostServedInAll), "HTTP");
  row("bytes of a request", Counted(kServedRequestKb) + " KiB", "HTTP, unless `--max-request-kb`");
  const std::string each = Counted(kServedRequestKb) + " KiB of a request";
  row("strings, lists and objects in " + each, Counted(kMostServedParts), "HTTP: JSON");
  row("values in " + each, Counted(kMostServedValues), "HTTP: JSON");
  row("fields of a form", Counted(kMostFormFields), "HTTP");
  row("names in `unknown_labels`", Counted(kMostUnknownLabels), "HTTP");
  row("bytes of all requests and responses at once",
      fmt::format("{} times those of a request; half of it from one address outside loopback",
                  kServedRequests),
      "HTTP");
  row("hidden units of a layer", Counted(kMostHiddenUnits), "`model.hidden`");
  row("hidden layers", Counted(kMostHiddenLayers), "`model.hidden`");
  row("epochs", Counted(kMostEpochs), "`train.epochs`");
  row("samples of a batch", Counted(kMaxBatchSamples), "`train.batch`");
  row("servers of a run", Counted(kMostStartedServers), "`cluster.servers`");
  row("workers of a run", Counted(kMostStartedWorkers), "`cluster.most_workers`");
  row("memory of a server", Counted(kMostMemoryMb) + " MiB", "`cluster.memory_mb`");
  return table;
}

}  // namespace

TEST_CASE("limits: the table in the documents agrees with the code") {
  const std::string text = Document("schema/LIMITS.md");
  const std::string begin = "<!-- limits: begin -->\n";
  const size_t at = text.find(begin), end = text.find("<!-- limits: end -->");
  REQUIRE(at != std::string::npos);
  REQUIRE(end != std::string::npos);
  CHECK(text.substr(at + begin.size(), end - at - begin.size()) == Table());
}

TEST_CASE("limits: the keys have the same ones") {
  const auto most = [](const char* key, uint64_t limit) {
    const ConfigKey* found = FindConfigKey(key);
    REQUIRE(found != nullptr);
    CAPTURE(key);
    CHECK(found->field.allowed.ends_with(fmt::format(" to {}", limit)));
  };
  most("model.features", kMostFeatures);
  most("model.labels", kMostLabels);
  most("train.epochs", kMostEpochs);
  most("train.batch", kMaxBatchSamples);
  most("cluster.servers", kMostStartedServers);
  most("cluster.workers", kMostStartedWorkers);
  most("cluster.most_workers", kMostStartedWorkers);
  most("cluster.memory_mb", kMostMemoryMb);
}

TEST_CASE("limits: what other documents say of them is the same") {
  CHECK(Document("tools/python/README.md")
            .find(fmt::format("by its weight, from 0 (no effect) to {}.",
                              Counted(static_cast<uint64_t>(kMostSampleWeight)))) !=
        std::string::npos);
}

}  // namespace dslide
