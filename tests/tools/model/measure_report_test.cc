#include "tools/dslide/model/measure_report.h"

#include <doctest/doctest.h>

#include <vector>

namespace dslide::measure_report_test {
namespace {

// Predicted 1 2 of {1}, and 2 1 of {0}; label 1 is frequent, and label 0 does not occur.
Measures MeasuresOf(const FrequencyBands& bands, const InversePropensities& propensities) {
  MeasureAccumulator accumulator({1, 20}, propensities, bands);
  accumulator.Add(std::vector<uint32_t>{1, 2}, std::vector<uint32_t>{1});
  accumulator.Add(std::vector<uint32_t>{2, 1}, std::vector<uint32_t>{0});
  return accumulator.Result();
}

// The rows that need no training file.
constexpr char kRows[] =
    "                  @1    @20\n"
    "P              50.00   2.50\n"
    "nDCG           50.00  50.00\n"
    "recall         50.00  50.00\n"
    "F1             50.00  33.33\n"
    "micro F1       50.00  33.33\n"
    "macro F1       50.00  33.33\n"
    "coverage       50.00  50.00\n";

TEST_CASE("measure report: a table of percentages, a column for each k") {
  const FrequencyBands bands({{1, 8}, {2, 8}, {3, 6}, {4, 2}, {5, 1}});
  CHECK(
      MeasureTable(MeasuresOf(bands, InversePropensities(Dataset(1, 8))), bands) ==
      std::string(kRows) +
          "PSP            50.00  50.00\n"
          "PSnDCG         50.00  50.00\n"
          "P head         50.00   2.50\n"
          "P middle        0.00   0.00\n"
          "P tail          0.00   0.00\n"
          "recall head   100.00 100.00\n"
          "recall middle   0.00   0.00\n"
          "recall tail     0.00   0.00\n"
          "by training frequency: 2 head labels (8 times), no middle labels, 3 tail labels (1 to 6 "
          "times)\n");
}

TEST_CASE("measure report: without a training file there are neither PSP nor bands") {
  const Measures measures = MeasuresOf({}, {});
  CHECK(MeasureTable(measures, {}) == kRows);
  const nlohmann::ordered_json json = MeasureJson(measures, {});
  CHECK_FALSE(json.contains("psp_at_1"));
  CHECK_FALSE(json.contains("psndcg_at_1"));
  CHECK_FALSE(json.contains("bands"));
}

TEST_CASE("measure report: JSON has every measure at every k") {
  const FrequencyBands bands({{1, 8}, {2, 8}, {3, 6}, {4, 2}, {5, 1}});
  const nlohmann::ordered_json json =
      MeasureJson(MeasuresOf(bands, InversePropensities(Dataset(1, 8))), bands);
  for (const char* name : {"p", "ndcg", "recall", "f1", "hit", "mrr", "micro_f1", "macro_f1",
                           "coverage", "psp", "psndcg"}) {
    for (const char* k : {"1", "20"}) {
      const std::string key = std::string(name) + "_at_" + k;
      CAPTURE(key);
      REQUIRE(json.contains(key));
      CHECK(json[key].is_number());
    }
  }
  CHECK(json["p_at_20"] == 0.025);
  CHECK(json["samples"] == 2);
  CHECK(json["samples_without_labels"] == 0);
  CHECK(json["labels_in_data"] == 2);
  CHECK(json["bands"].dump() ==
        R"({"head":{"train_labels":2,"train_occurrences":16,"train_count_min":8,)"
        R"("train_count_max":8,"occurrences":1,"p_at_1":0.5,"recall_at_1":1.0,"p_at_20":0.025,)"
        R"("recall_at_20":1.0},)"
        R"("middle":{"train_labels":0,"train_occurrences":0,"train_count_min":0,)"
        R"("train_count_max":0,"occurrences":0,"p_at_1":0.0,"recall_at_1":0.0,"p_at_20":0.0,)"
        R"("recall_at_20":0.0},)"
        R"("tail":{"train_labels":3,"train_occurrences":9,"train_count_min":1,)"
        R"("train_count_max":6,"occurrences":1,"p_at_1":0.0,"recall_at_1":0.0,"p_at_20":0.0,)"
        R"("recall_at_20":0.0}})");
}

}  // namespace
}  // namespace dslide::measure_report_test
