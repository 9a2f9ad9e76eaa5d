// The samples of a data file, whatever its format, as a model numbers them.
//
// A file of the Extreme Classification Repository's format (common/data/xc_reader.h) has numbers.
// Files of records (record.h) have text and label names, which a Preprocessor numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/data/dataset.h"
#include "common/data/xc_reader.h"
#include "common/text/preprocessor.h"
#include "common/text/record_file.h"

namespace dslide {

struct TrainingSamples {
  Dataset data;
  std::shared_ptr<const Preprocessor> preprocessor;  // null: the file has numbers
  std::string description;                           // for people: format and sizes
};

// Reads a training file, and fits a preprocessor unless `known` is given (a run that goes on). Logs
// what it found. Errors as XcReader's and Preprocessor::Fit()'s.
Result<TrainingSamples> LoadTrainingSamples(const std::string& path, const TextConfig& config,
                                            std::shared_ptr<const Preprocessor> known);

// Reads another file for the same model. `preprocessor` is null for a model of numbers. Labels that
// the model lacks get ids from N on. LoadSamples() logs what it found.
Result<Dataset> ReadSamples(const std::string& path, const Preprocessor* preprocessor);
Result<Dataset> LoadSamples(const std::string& path, const Preprocessor* preprocessor);

// A file's samples one after another, for the same model.
class SampleReader {
 public:
  // The preprocessor must outlive the reader.
  static Result<SampleReader> Open(const std::string& path, const Preprocessor* preprocessor);

  // Of a file with numbers: what its header says.
  const XcHeader* header() const { return xc_ ? &xc_->header() : nullptr; }

  // The next sample, or nullopt at the end; the view is valid until the next call.
  Result<std::optional<SampleView>> Next();

 private:
  explicit SampleReader(XcReader xc) : xc_(std::move(xc)) {}
  SampleReader(RecordFile file, const Preprocessor* preprocessor);

  Status Refill();

  std::optional<XcReader> xc_;
  // Of a file of records.
  std::optional<RecordFile> file_;
  const Preprocessor* preprocessor_ = nullptr;
  std::vector<Preprocessor::Encoder> encoders_;  // [threads]
  Dataset samples_;                              // read ahead
  size_t next_ = 0;                              // of samples_
};

}  // namespace dslide
