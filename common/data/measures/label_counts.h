// How often labels occur in a training file, and which of them are frequent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/data/dataset.h"

namespace dslide {

struct LabelCount {
  uint32_t label = 0;
  uint64_t count = 0;  // samples that have the label; at least 1
  bool operator==(const LabelCount&) const = default;
};

// The labels that occur, ascending. Takes memory for all labels of all samples. Of samples that are
// drawn it counts tokens. Names do not count. `without`: numbers of samples, ascending, that are
// not counted.
std::vector<LabelCount> CountLabels(const Dataset& train, std::span<const uint32_t> without = {});

enum class Band : uint8_t { kHead, kMiddle, kTail };
constexpr size_t kBands = 3;
constexpr std::array<const char*, kBands> kBandNames = {"head", "middle", "tail"};

// Divides the labels by their frequency in the training file into bands of equal volume: each holds
// about a third of the occurrences of labels. Labels in descending order of frequency lay their
// occurrences in a row, [0, T). Labels of one frequency stay together: the middle of their
// occurrences says whether they are in the head, [0, T/3), the middle or the tail. So the frequency
// alone decides, never the number of a label. A label that does not occur is in the tail.
//
// Immutable; takes memory for the labels that occur.
class FrequencyBands {
 public:
  // The labels of a band that occur in the training file.
  struct Extent {
    uint64_t labels = 0;
    uint64_t occurrences = 0;  // of these labels, in all samples
    uint64_t fewest = 0;       // occurrences of the rarest of them; 0: there are no labels
    uint64_t most = 0;         // of the most frequent one
  };

  FrequencyBands() = default;  // unknown
  // REQUIRES labels that ascend, as CountLabels() returns them.
  explicit FrequencyBands(std::vector<LabelCount> counts);

  bool known() const { return known_; }
  // REQUIRES known(), here and below.
  Band Of(uint32_t label) const;
  const Extent& ExtentOf(Band band) const;

 private:
  // Labels of one frequency, and the band that they are in.
  void AddGroup(Band band, uint64_t frequency, uint64_t labels);

  std::vector<LabelCount> counts_;  // labels ascend
  std::array<Extent, kBands> extents_;
  bool known_ = false;
};

}  // namespace dslide
