// Predictions on disk or standard output, one line a sample.
//
//   text   label:score label:score ...      best first; after a name comes a tab, not a space
//   JSON   {"id":...,"labels":[...],"uris":[...],"scores":[...]}
//                                            `id` if the sample has one, `uris` with a vocabulary
//
// The line of a record that cannot be read says why: "cannot be read: FILE:LINE: ...", as JSON
// {"error":"FILE:LINE: ...","labels":[],"scores":[]}.
//
// A score is the label's logit, which ranks the labels of one sample. Labels are names if the model
// has some, else ids. With probabilities text has them in place of scores, and JSON has a
// further list, "probabilities":[...].
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/output_file.h"
#include "common/model/ranker.h"

namespace dslide {

struct PredictionFormat {
  bool json = false;
  // By id; null: labels are ids. Must outlive the file.
  const std::vector<std::string>* names = nullptr;
  // Identifiers by id; null: the model has no vocabulary. Must outlive the file.
  const std::vector<std::string>* uris = nullptr;
  bool probabilities = false;
  float threshold = 0;  // labels of a lower probability are left out
};

class PredictionFile {
 public:
  // An empty path: nothing is written.
  static Result<PredictionFile> Create(const std::string& path, const PredictionFormat& format);
  static PredictionFile StandardOutput(const PredictionFormat& format);

  // Writes the first `top_k` labels of each row. `sample_ids`: an id for each row, as JSON, or ""
  // for a sample without an id; may be an empty list. `errors`: for each row, why its record cannot
  // be read, or ""; may be an empty list. REQUIRES probabilities, if the format has them. Finish()
  // reports a failure.
  void Write(const RankedLabels& ranking, uint32_t top_k,
             std::span<const std::string> sample_ids = {},
             std::span<const std::string> errors = {});
  Status Finish() { return out_.Finish(); }

 private:
  PredictionFile(OutputFile out, const PredictionFormat& format)
      : out_(std::move(out)), format_(format) {}

  // The labels of entries [begin, end) with their numbers.
  std::string TextLine(const RankedLabels& ranking, uint32_t begin, uint32_t end) const;
  std::string JsonLine(const RankedLabels& ranking, uint32_t begin, uint32_t end,
                       const std::string& id) const;

  std::string ErrorLine(std::string error) const;

  OutputFile out_;
  PredictionFormat format_;
};

}  // namespace dslide
