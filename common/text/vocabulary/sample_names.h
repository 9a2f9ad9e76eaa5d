// The names of labels in samples' texts (name_matcher.h), by sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/text/vocabulary/name_matcher.h"

namespace dslide {

struct SampleNames {
  std::span<const NameMatch> matches = {};  // labels ascend
  uint32_t words = 0;                       // of the sample's text
};

// Names in many samples.
class NamesOfSamples {
 public:
  size_t size() const { return ends_.size(); }
  void Add(SampleNames names) {
    matches_.insert(matches_.end(), names.matches.begin(), names.matches.end());
    ends_.push_back(matches_.size());
    words_.push_back(names.words);
  }
  SampleNames operator[](size_t sample) const {
    const size_t begin = sample == 0 ? 0 : ends_[sample - 1];
    return {std::span(matches_).subspan(begin, ends_[sample] - begin), words_[sample]};
  }

 private:
  std::vector<NameMatch> matches_;
  std::vector<size_t> ends_;     // [samples]
  std::vector<uint32_t> words_;  // [samples]
};

}  // namespace dslide
