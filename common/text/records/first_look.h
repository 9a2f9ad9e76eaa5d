// A first look at a file of records, for people, before a run trains on it for hours: the first two
// samples as they were understood, and warnings where text and labels are mixed up.
//
// Threads look at blocks of lines. Appended in the blocks' order, the result does not depend on the
// number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/text/records/record.h"

namespace dslide {

// "3 of 4 samples have no label".
std::string WithoutLabels(uint64_t without, uint64_t samples);

// "first sample: 12 features, 3:0.5 17:1 ..., labels 4 | 9". `i`: 0 or 1.
std::string SampleLine(size_t i, const SampleView& sample);

class FirstLook {
 public:
  static constexpr size_t kSamples = 2;  // the samples that are shown

  void Add(const Record& record);
  // Adds the result of the lines that follow.
  void Append(const FirstLook& later);

  uint64_t without_labels() const { return samples_ - labelled_; }

  // "first sample: text 'a red boat', labels boat | red", and the second one.
  std::vector<std::string> SampleLines() const;
  // The number of samples without labels, and the key that they have in place of "labels"; "" if
  // every sample has a label.
  std::string WithoutLabels() const;
  // The key that samples have in place of "labels", and their number; "" if no sample has one.
  std::string KeyInPlaceOfLabels() const;
  // WithoutLabels() and all other warnings. Callers put the file's name before each.
  // `label_names`: each name that occurs, once.
  std::vector<std::string> Warnings(std::span<const std::string> label_names) const;

 private:
  struct Shown {
    std::vector<std::string> fields, labels;
  };

  std::vector<Shown> shown_;
  uint64_t samples_ = 0;
  uint64_t labelled_ = 0;
  uint64_t entries_ = 0;      // labels, counted for each sample
  uint64_t text_bytes_ = 0;   // of samples with labels
  uint64_t label_bytes_ = 0;  // of the entries that are not addresses
  uint64_t near_keys_ = 0;    // samples with Record::near_key
  std::string near_key_;      // of the first such sample
};

}  // namespace dslide
