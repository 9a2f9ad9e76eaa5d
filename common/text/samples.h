// The samples of a data file, whatever its format, as a model numbers them.
//
// Some formats have numbers (common/data/numbers/number_file.h). Files of records (record.h) have
// text and label names, which a Preprocessor numbers. With text.format = words or sessions a file
// has lines of tokens (tokens.h), whose samples in training are drawn (token_samples.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/data/dataset.h"
#include "common/data/measures/metrics.h"
#include "common/data/numbers/number_file.h"
#include "common/text/preprocessor.h"
#include "common/text/records/first_look.h"
#include "common/text/records/record_file.h"
#include "common/text/records/record_format.h"
#include "common/text/vocabulary/sample_names.h"

namespace dslide {

struct TrainingSamples {
  Dataset data;
  InversePropensities inverse_propensities;          // of all labels, also those left out
  std::shared_ptr<const Preprocessor> preprocessor;  // null: the file has numbers
  std::string description;                           // for people: format and sizes
  // For people: two samples, what looks wrong, what was left out.
  std::vector<std::string> notes;
};

// How a training file becomes samples.
struct TrainingInput {
  TextConfig text;
  uint32_t min_label_samples = 1;
  std::shared_ptr<const Preprocessor> known = {};  // of a run that goes on; null: one is fitted
  const Vocabulary* vocabulary = nullptr;          // of a run that begins; null: none
  float name_weight = 0;                           // LabelsConfig::name_weight
};

// An error (kBadInput) that names a sample with a value above kMostFeatureValue after division by
// `divisor`. Training cannot use such values, and a server refuses the worker that sends them.
Status CheckValues(const std::string& path, const Dataset& data, float divisor);

// Reads a training file. Labels of fewer than `min_label_samples` samples are left out of all
// samples; of numbers they keep their ids. Logs what it found. Errors as XcReader's and
// Preprocessor::Fit()'s.
Result<TrainingSamples> LoadTrainingSamples(const std::string& path, const TrainingInput& input);

// An error if a sample has a label that is not among the data's: the file has grown since its
// labels were collected.
Status CheckLabelsKnown(const std::string& path, const Dataset& data);

// What a model knows of its samples: the preprocessor if it was trained on text, else its size.
struct ModelInput {
  const Preprocessor* preprocessor = nullptr;
  ModelSize size;
  // The format that the user names; nullopt: the one of the model's training data.
  std::optional<DataFormat> named = {};
};

struct LoadedSamples {
  Dataset data;
  std::vector<std::string> notes;  // for people: what was left out
};

// Reads the labels of another file for the same model, as of a training file for a model of words
// or sessions. The samples of text have no features. Labels that the model lacks get ids from N on.
Result<Dataset> ReadLabels(const std::string& path, const ModelInput& model);
// Reads another file for evaluation. The samples are stored; those of tokens have whole windows.
// Labels that the model lacks get ids from N on; features that it lacks are left out. A file
// without a labelled sample is an error. Logs what it found.
Result<LoadedSamples> LoadSamples(const std::string& path, const ModelInput& model);
// LoadSamples() for train.test. If `text` names a format, the file must have it; else the format is
// recognised from the lines, and may differ from that of the training file.
Result<LoadedSamples> LoadTestSamples(const std::string& path, const TrainingSamples& training,
                                      const TextConfig& text);

// Samples that have no label; of samples that are drawn 0.
uint64_t CountWithoutLabels(const Dataset& data);
// The error of a file of which no sample has a label to measure predictions by. `why`: what is
// known about it, or "".
Error NothingToMeasure(const std::string& path, uint64_t samples, const std::string& why);
// That error, if it is one.
Status CheckLabelled(const std::string& path, const Dataset& data, const std::string& why);

// A line about `count` feature entries of a file that are left out; REQUIRES count > 0.
std::string LeftOutLine(const std::string& path, uint64_t count, uint32_t model_features);

// A file's samples one after another, for the same model.
class SampleReader {
 public:
  // What a line of tokens is: a sample to predict, or all samples that it has, with labels.
  enum class Lines { kWhole, kExpanded };

  // The preprocessor must outlive the reader. A blank line of text is a sample without words, and a
  // record that cannot be read one with an error(), so that results stand beside the records,
  // unless `skip_blank`. Expanded lines are not JSON, and
  // plain text is not a format of a model of other records.
  static Result<SampleReader> Open(const std::string& path, const ModelInput& model,
                                   bool skip_blank = false, Lines lines = Lines::kWhole);

  // Of a file with numbers that tells its sizes: what it says.
  const XcHeader* header() const { return numbers_ ? numbers_->header() : nullptr; }

  // From now on names() returns the names that `matcher` finds. The matcher must outlive the
  // reader. REQUIRES a file of records of which no sample was read.
  void FindNames(const NameMatcher& matcher);

  // The next sample, or nullopt at the end, where too many records that cannot be read are an
  // error; the view is valid until the next call.
  Result<std::optional<SampleView>> Next();
  // Of the sample that Next() returned last: as JSON, empty if it has none.
  const std::string& id() const { return id_; }
  // The names in that sample's text. Valid until the next call.
  SampleNames names() const {
    return finders_.empty() ? SampleNames() : parts_[part_].names[next_ - 1];
  }
  // Why the record of that sample cannot be read, and where it is; "" if it was read.
  const std::string& error() const { return error_; }
  // For people, if the file has another format than the model's training data: which one.
  const std::string& note() const { return note_; }
  // Feature entries that the model lacks, so far, of a file with numbers.
  uint64_t left_out() const { return numbers_ ? numbers_->left_out() : 0; }
  // Records that were read so far, also ahead of the samples.
  const UnreadableRecords& unreadable() const { return unreadable_; }
  const FirstLook& look() const { return look_; }

 private:
  // Samples read ahead, and their ids.
  struct Part {
    Dataset samples;
    std::vector<std::string> ids;
    std::vector<std::string> errors;
    UnreadableRecords unreadable;
    FirstLook look = {};
    NamesOfSamples names = {};
  };

  SampleReader(std::string path, NumberFile numbers)
      : path_(std::move(path)), numbers_(std::move(numbers)) {}
  SampleReader(RecordFile file, const ModelInput& model, bool skip_blank, Lines lines);

  Status Refill();

  std::string path_;   // of numbers, as are the next two
  uint64_t read_ = 0;  // samples
  std::optional<NumberFile> numbers_;
  // Of a file of records.
  std::optional<RecordFile> file_;
  bool skip_blank_ = false;
  bool expanded_ = false;
  UnreadableRecords unreadable_;
  FirstLook look_;
  const Preprocessor* preprocessor_ = nullptr;
  std::vector<Preprocessor::Encoder> encoders_;  // [threads]
  std::vector<NameMatcher::Finder> finders_;     // [threads], or none
  std::vector<Part> parts_;
  size_t part_ = 0;
  size_t next_ = 0;  // of parts_[part_]
  std::string id_;
  std::string error_;
  std::string note_;
};

}  // namespace dslide
