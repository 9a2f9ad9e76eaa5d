// Predictions on disk or standard output, one line a sample.
//
//   text   label:score label:score ...      best first; after a name comes a tab, not a space
//   JSON   {"id":...,"labels":[...],"scores":[...]}    `id` if the sample has one
//
// A score is the label's logit, which ranks the labels of one sample. Labels are names if the model
// has some, else ids.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/output_file.h"
#include "common/wire/messages.h"

namespace dslide {

class PredictionFile {
 public:
  using Names = std::vector<std::string>;  // by id

  // An empty path: nothing is written. `names` may be null, else they must outlive the file.
  static Result<PredictionFile> Create(const std::string& path, bool json, const Names* names);
  static PredictionFile StandardOutput(bool json, const Names* names);

  // The first `top_k` labels of each row. `sample_ids`: one a row, as JSON, empty where a sample
  // has none; or no ids at all. Finish() reports a failure.
  void Write(const TopKReply& reply, uint32_t top_k, std::span<const std::string> sample_ids = {});
  Status Finish() { return out_.Finish(); }

 private:
  PredictionFile(OutputFile out, bool json, const Names* names)
      : out_(std::move(out)), json_(json), names_(names) {}

  OutputFile out_;
  bool json_;
  const Names* names_;
};

}  // namespace dslide
