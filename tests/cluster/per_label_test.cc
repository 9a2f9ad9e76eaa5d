// `dslide evaluate --per-label` counts what the lines of --per-sample add up to.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/cluster/cluster.h"

namespace dslide::per_label_test {
namespace {

using Json = nlohmann::json;
using Names = std::set<std::string>;

constexpr char kLabelsOfColours[] = "red blue green";

// Samples with one or two labels out of three, of which a text says one only at times.
void WriteTexts(const std::string& path, int samples) {
  std::ofstream file(path);
  const std::vector<std::string> colours = {"red", "blue", "green"};
  for (int i = 0; i < samples; ++i) {
    const std::string& colour = colours[i % 3];
    const std::string& other = colours[(i / 3) % 3];
    Json labels = Json::array({colour});
    if (other != colour && i % 2 == 0) labels.push_back(other);
    file << Json{{"text", i % 5 == 0 ? "some " + other + " thing" : "a " + colour + " thing"},
                 {"labels", labels}}
                .dump()
         << "\n";
  }
}

struct Row {
  int support = 0, predicted = 0, hits = 0;
  std::map<std::string, int> confusions;
  bool operator==(const Row&) const = default;
};

std::map<std::string, Row> RowsOfSamples(const std::string& path, size_t k) {
  std::map<std::string, Row> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json sample = Json::parse(line);
    const auto labels = sample["labels"].get<Names>();
    auto ranked = sample["predicted"].get<std::vector<std::string>>();
    ranked.resize(std::min(ranked.size(), k));
    const Names predicted(ranked.begin(), ranked.end());
    for (const std::string& label : predicted) {
      ++rows[label].predicted;
      rows[label].hits += labels.contains(label);
    }
    for (const std::string& label : labels) {
      ++rows[label].support;
      if (predicted.contains(label)) continue;
      for (const std::string& other : predicted) {
        if (!labels.contains(other)) ++rows[label].confusions[other];
      }
    }
  }
  return rows;
}

TEST_CASE("evaluate: the lines of labels agree with the lines of samples") {
  TestRun run;
  const std::string data = run.Path("colours.jsonl"), model = run.Path("colours"),
                    samples = run.Path("samples.jsonl"), labels = run.Path("labels.tsv");
  WriteTexts(data, 300);
  REQUIRE_MESSAGE(run.Run("dslide", {"train", "--set", "train.data=" + data, "--set",
                                     "train.epochs=2", "--set", "model.hidden=8", "--servers", "1",
                                     "--workers", "1", "--run-dir", model}) == 0,
                  run.last_errors());
  for (const size_t k : {size_t{1}, size_t{2}}) {
    CAPTURE(k);
    const std::string top_k = std::to_string(k);
    REQUIRE_MESSAGE(run.Run("dslide", {"evaluate", "--checkpoint", model, "--data", data, "--top-k",
                                       top_k, "--per-sample", samples, "--per-label", labels}) == 0,
                    run.last_errors());
    CHECK(Contains(run.last_output(), "labels, each predicted where it is among a sample's first " +
                                          top_k + " (--top-k): 3 in the data"));
    std::map<std::string, Row> expected = RowsOfSamples(samples, k), rows;
    std::ifstream file(labels);
    std::string line;
    std::getline(file, line);
    CHECK(line.starts_with("label\tsupport\tpredicted\thits\tprecision_at_" + top_k +
                           "\trecall_at_" + top_k + "\tf1_at_" + top_k + "\tconfusion_1\t"));
    while (std::getline(file, line)) {
      std::vector<std::string> cells;
      std::istringstream words(line);
      for (std::string cell; std::getline(words, cell, '\t');) cells.push_back(cell);
      REQUIRE(cells.size() >= 7);
      CHECK(Contains(kLabelsOfColours, cells[0]));
      Row& row = rows[cells[0]];
      row = {std::stoi(cells[1]), std::stoi(cells[2]), std::stoi(cells[3]), {}};
      if (row.predicted > 0) {
        CHECK(std::stod(cells[4]) == doctest::Approx(1.0 * row.hits / row.predicted).epsilon(1e-4));
      }
      CHECK(std::stod(cells[5]) == doctest::Approx(1.0 * row.hits / row.support).epsilon(1e-4));
      CHECK(std::stod(cells[6]) ==
            doctest::Approx(2.0 * row.hits / (row.support + row.predicted)).epsilon(1e-4));
      for (size_t c = 7; c + 1 < cells.size(); c += 2) {
        if (!cells[c].empty()) row.confusions[cells[c]] = std::stoi(cells[c + 1]);
      }
    }
    CHECK(rows == expected);
  }
  CHECK(run.Run("dslide", {"evaluate", "--checkpoint", model, "--data", data, "--per-label", labels,
                           "--per-sample", labels}) == 2);
  CHECK(Contains(run.last_errors(), "--per-"));
  REQUIRE(run.Run("dslide",
                  {"evaluate", "--checkpoint", model, "--data", data, "--per-label", "-"}) == 0);
  CHECK(run.last_output().starts_with("label\t"));  // and measures on standard error
  CHECK(Contains(run.last_errors(), "P "));
}

}  // namespace
}  // namespace dslide::per_label_test
