// Predictions on disk or standard output, one line a sample.
//
//   text   label:score label:score ...      best first
//   JSON   {"labels":[...],"scores":[...]}
#pragma once

#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/wire/messages.h"
#include "tools/dslide/model/output_file.h"

namespace dslide {

class PredictionFile {
 public:
  // An empty path: nothing is written.
  static Result<PredictionFile> Create(const std::string& path, bool json);
  static PredictionFile StandardOutput(bool json);

  // The first `top_k` labels of each row. Finish() reports a failure.
  void Write(const TopKReply& reply, uint32_t top_k);
  Status Finish() { return out_.Finish(); }

 private:
  PredictionFile(OutputFile out, bool json) : out_(std::move(out)), json_(json) {}

  OutputFile out_;
  bool json_;
};

}  // namespace dslide
