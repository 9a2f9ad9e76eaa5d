// How well each label is found, and which labels are predicted in its place.
//
// A label counts as predicted for a sample where it is among the first k predictions:
//
//   support     samples that have the label
//   predicted   samples for which it is predicted
//   hits        samples that have it and for which it is predicted
//   precision   hits / predicted          no value where it is never predicted
//   recall      hits / support            no value where no sample has it
//   F1          2 hits / (support + predicted)
//   confusions  in the samples that have it and for which it is not predicted: the labels that are
//               predicted there and that the sample does not have, most samples first
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/data/output_file.h"
#include "tools/dslide/model/sample_file.h"

namespace dslide {

struct Confusion {
  uint32_t label = 0;
  uint32_t samples = 0;
};

struct LabelRow {
  uint32_t label = 0;
  uint32_t support = 0, predicted = 0, hits = 0;
  std::vector<Confusion> confusions;  // at most kMaxConfusions

  std::optional<double> Precision() const;
  std::optional<double> Recall() const;
  double F1() const;  // REQUIRES support or predicted above 0
};

constexpr size_t kMaxConfusions = 3;

// Counts over samples, in any order. Takes memory for the labels that were true or predicted, and
// for the pairs of labels that were confused. Not thread-safe.
class LabelReport {
 public:
  explicit LabelReport(uint32_t k) : k_(k) {}

  // `ranked`: predicted labels, best first. `labels`: the true ones, ascending. REQUIRES that no
  // label is predicted twice.
  void Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);

  // A row for each label that a sample has or that is predicted, the labels of the most samples
  // first.
  std::vector<LabelRow> Rows() const;
  uint32_t k() const { return k_; }

 private:
  struct Counts {
    uint32_t support = 0, predicted = 0, hits = 0;
  };

  uint32_t k_;
  std::unordered_map<uint32_t, Counts> counts_;        // by label
  std::unordered_map<uint64_t, uint32_t> confusions_;  // samples, by true label << 32 | predicted
};

// Tab-separated values with a header. Backslashes, tabs and line ends of names are \\, \t, \n, \r;
// a measure without a value is empty. `name_of`: null where labels have no names.
void WriteLabelRows(uint32_t k, std::span<const LabelRow> rows, const LabelNamer& name_of,
                    OutputFile* out);

// The labels with the lowest F1 among the labels of several samples, as lines for a terminal.
std::string WorstLabels(uint32_t k, std::span<const LabelRow> rows, const LabelNamer& name_of);

}  // namespace dslide
