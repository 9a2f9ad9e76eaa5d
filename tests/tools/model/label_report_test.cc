#include "tools/dslide/model/label_report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/base/random.h"
#include "common/data/whole_file.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::label_report_test {
namespace {

using Ids = std::vector<uint32_t>;

struct Sample {
  Ids ranked, labels;
};

const std::vector<Sample> kSamples = {{{3, 1, 0, 2, 4, 5}, {0, 3}},
                                      {{0, 2, 3, 1, 4, 6}, {1}},
                                      {{0, 1, 2, 3, 4, 5}, {}},
                                      {{7, 5}, {2, 4, 7}},
                                      {{0, 6, 4, 1, 7, 2}, {0, 1, 2, 3, 5, 6}}};

LabelReport ReportOf(const std::vector<Sample>& samples, uint32_t k) {
  LabelReport report(k);
  for (const Sample& sample : samples) report.Add(sample.ranked, sample.labels);
  return report;
}

// Values for kSamples from numpy 1.24 and scikit-learn 1.2 on 5 x 8 indicator matrices of the true
// labels and the first k predictions: precision_recall_fscore_support(average=None,
// zero_division=0).
struct Expected {
  uint32_t support, predicted, hits;
  double precision, recall, f1;
};
constexpr Expected kExpectedAt3[] = {
    {2, 4, 2, 0.5, 1, 2.0 / 3}, {2, 2, 0, 0, 0, 0}, {2, 2, 0, 0, 0, 0}, {2, 2, 1, 0.5, 0.5, 0.5},
    {1, 1, 0, 0, 0, 0},         {1, 1, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}};

TEST_CASE("label report: as scikit-learn, but that a measure of nothing has no value") {
  const std::vector<LabelRow> rows = ReportOf(kSamples, 3).Rows();
  REQUIRE(rows.size() == std::size(kExpectedAt3));
  for (const LabelRow& row : rows) {
    CAPTURE(row.label);
    const Expected& e = kExpectedAt3[row.label];
    CHECK(row.support == e.support);
    CHECK(row.predicted == e.predicted);
    CHECK(row.hits == e.hits);
    CHECK(row.Precision() == doctest::Approx(e.precision));
    CHECK(row.Recall() == doctest::Approx(e.recall));
    CHECK(row.F1() == doctest::Approx(e.f1));
  }
  CHECK_FALSE(ReportOf(kSamples, 1).Rows()[1].Precision().has_value());
  const std::vector<LabelRow> one = ReportOf({{{4}, {}}}, 1).Rows();
  REQUIRE(one.size() == 1);
  CHECK_FALSE(one[0].Recall().has_value());
  CHECK(one[0].Precision() == 0.0);
}

TEST_CASE("label report: rows and confusions of random samples, counted in another way") {
  Random random(7);
  constexpr uint32_t kLabels = 12, kDepth = 6;
  std::vector<Sample> samples;
  for (int i = 0; i < 400; ++i) {
    Sample sample;
    std::set<uint32_t> labels, ranked;
    for (uint64_t n = random.Below(4); labels.size() < n;) {
      labels.insert(static_cast<uint32_t>(random.Below(kLabels)));
    }
    while (ranked.size() < random.Below(kDepth + 1)) {
      const auto label = static_cast<uint32_t>(random.Below(kLabels + 1));  // one is never true
      if (ranked.insert(label).second) sample.ranked.push_back(label);
    }
    sample.labels.assign(labels.begin(), labels.end());
    samples.push_back(sample);
  }
  for (const uint32_t k : {1u, 2u, 5u}) {
    CAPTURE(k);
    uint32_t before = UINT32_MAX;
    for (const LabelRow& row : ReportOf(samples, k).Rows()) {
      CAPTURE(row.label);
      CHECK(row.support <= before);
      before = row.support;
      uint32_t support = 0, predicted = 0, hits = 0;
      std::map<uint32_t, uint32_t> instead;
      for (const Sample& sample : samples) {
        const Ids first(sample.ranked.begin(),
                        sample.ranked.begin() +
                            static_cast<std::ptrdiff_t>(std::min<size_t>(k, sample.ranked.size())));
        const bool is_true = std::ranges::count(sample.labels, row.label) > 0;
        const bool is_predicted = std::ranges::count(first, row.label) > 0;
        support += is_true;
        predicted += is_predicted;
        hits += is_true && is_predicted;
        if (!is_true || is_predicted) continue;
        for (const uint32_t other : first) {
          if (std::ranges::count(sample.labels, other) == 0) ++instead[other];
        }
      }
      CHECK(row.support == support);
      CHECK(row.predicted == predicted);
      CHECK(row.hits == hits);
      CHECK(row.confusions.size() == std::min(instead.size(), kMaxConfusions));
      for (const Confusion& confusion : row.confusions) {
        CHECK(confusion.samples == instead[confusion.label]);
        instead.erase(confusion.label);
      }
      for (const auto& [label, count] : instead) {
        CHECK(count <= row.confusions.back().samples);
      }
    }
  }
}

TEST_CASE("label report: the file and the worst labels in lines") {
  const auto name = [](uint32_t label) {
    return label == 1 ? std::string("a\tb\\c\n") : "label " + std::to_string(label);
  };
  const std::vector<LabelRow> rows = ReportOf(kSamples, 2).Rows();
  const TempDirectory directory;
  const std::string path = directory.path() + "/labels.tsv";
  OutputFile out = Ok(OutputFile::Create(path));
  WriteLabelRows(2, std::span(rows).first(3), name, &out);
  REQUIRE(out.Finish().ok());
  CHECK(*ReadWholeFile(path) ==
        "label\tsupport\tpredicted\thits\tprecision_at_2\trecall_at_2\tf1_at_2\tconfusion_1\t"
        "confusion_1_samples\tconfusion_2\tconfusion_2_samples\tconfusion_3\tconfusion_3_samples\n"
        "label 0\t2\t3\t1\t0.333333\t0.5\t0.4\ta\\tb\\\\c\\n\t1\t\t\t\t\n"
        "a\\tb\\\\c\\n\t2\t2\t0\t0\t0\t0\tlabel 0\t1\tlabel 2\t1\t\t\n"
        "label 2\t2\t1\t0\t0\t0\t0\tlabel 5\t1\t\t\t\t\n");
  CHECK(
      WorstLabels(2, std::span(rows).first(3), nullptr) ==
      "labels, each predicted where it is among a sample's first 2 (--top-k): 3 in the data, 2 of "
      "them never found\n"
      "the worst by F1 of 3 labels with 2 samples or more:\n"
      "  samples  precision   recall       F1  label (predicted in its place)\n"
      "        2       0.00     0.00     0.00  1 (0 1, 2 1)\n"
      "        2       0.00     0.00     0.00  2 (5 1)\n"
      "        2      33.33    50.00    40.00  0 (1 1)\n");
  CHECK(WorstLabels(2, {}, nullptr).empty());
  const std::vector<LabelRow> never = ReportOf({{{4}, {3}}}, 1).Rows();
  CHECK(WorstLabels(1, never, nullptr)
            .ends_with("        1          -     0.00     0.00  3 (4 1)\n"));
}

}  // namespace
}  // namespace dslide::label_report_test
