// What came out for each sample, one line of JSON a sample, in the order of the data:
//
//   {"sample":1,"labels":[3,17],"predicted":[17,4,9,3,8],"scores":[...],
//    "p_at_1":1,"p_at_5":0.4,"recall":1,"reciprocal_rank":1}
//
// Labels are names if the model has some, else ids.
//
//   sample           its number in the data, from 1
//   labels           the true ones, ascending
//   predicted        best first, with their scores, which are logits
//   p_at_1, p_at_5   the share of true labels among the first 1 and 5 predictions
//   recall           the share of the true labels that are in `predicted`; 0 without labels
//   reciprocal_rank  1 / the rank in `predicted` of the first true label, from 1; 0 if there is
//   none
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/output_file.h"
#include "common/wire/messages.h"

namespace dslide {

// A label's name, by its id.
using LabelNamer = std::function<std::string(uint32_t)>;

// The line of one sample, with its end. `ranked`, `scores`: best first, of the same length; the
// first `top_k` are written, and the first 5 measured. `labels`: ascending. `name_of`: null where
// they have no names.
std::string SampleLine(uint64_t number, std::span<const uint32_t> labels,
                       std::span<const uint32_t> ranked, std::span<const float> scores,
                       uint32_t top_k, const LabelNamer& name_of = nullptr);

class SampleFile {
 public:
  // An empty path: nothing is written. `name_of` as for SampleLine().
  static Result<SampleFile> Create(const std::string& path, uint32_t top_k, LabelNamer name_of);

  // The next samples: row i of `labels` has the true labels of row i of `reply`.
  void Write(const SparseRows& labels, const TopKReply& reply);
  Status Finish() { return out_.Finish(); }

 private:
  SampleFile(OutputFile out, uint32_t top_k, LabelNamer name_of)
      : out_(std::move(out)), top_k_(top_k), name_of_(std::move(name_of)) {}

  OutputFile out_;
  uint32_t top_k_;
  LabelNamer name_of_;
  uint64_t samples_ = 0;  // written so far
};

}  // namespace dslide
