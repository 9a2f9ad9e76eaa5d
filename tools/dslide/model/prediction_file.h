// Predictions on disk or standard output, one line a sample.
//
//   text   label:score label:score ...      best first
//   JSON   {"labels":[...],"scores":[...]}
#pragma once

#include <cstdio>
#include <string>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace dslide {

// A file is written under a temporary name, and renamed by Finish(), so that an incomplete file
// never looks complete.
class PredictionFile {
 public:
  // An empty path: nothing is written.
  static Result<PredictionFile> Create(const std::string& path, bool json);
  static PredictionFile StandardOutput(bool json);
  PredictionFile(PredictionFile&& other) noexcept;
  ~PredictionFile();

  // The first `top_k` labels of each row. Finish() reports a failure.
  void Write(const TopKReply& reply, uint32_t top_k);
  Status Finish();

 private:
  PredictionFile(std::string path, std::string temporary, bool json, std::FILE* out)
      : path_(std::move(path)), temporary_(std::move(temporary)), json_(json), out_(out) {}

  std::string path_;
  std::string temporary_;  // empty: not a regular file, written in place
  bool json_;
  std::FILE* out_;  // null: nothing is written, or finished
  int error_ = 0;   // errno of the first failure
};

}  // namespace dslide
