// Held-out samples: training samples that are not trained, so that they measure the model. Which
// ones a run holds out (train.heldout) is decided in this place alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/data/dataset.h"

namespace dslide {

// How many samples train.heldout = auto stands for: 2 %, at least 500 and at most 5,000, but never
// above 5 % of `spare`, the samples of which each label has another sample: of small data these are
// few, and the ones that training needs most.
uint32_t DerivedHeldOut(uint64_t samples, uint64_t spare);

struct HeldOutSamples {
  std::vector<uint32_t> numbers;  // ascend
  uint32_t contents = 0;          // how many of them differ
};

// Chooses at most train.heldout samples that have labels. train.heldout = auto chooses none.
//
// A hash of a sample's content, with common.seed, decides. So all machines choose the same samples,
// samples with equal contents stay together, and the order of the file has no influence. The
// content is the features and their values; where feature i and label i are the same thing
// (train.exclude_own_features), the features and labels together, since such files have a user's
// things several times, each time divided into features and labels in another way. Each label keeps
// at least one sample that is trained, which may be its name; no name is held out. REQUIRES that
// the samples are stored.
HeldOutSamples ChooseHeldOut(const Dataset& data, const Config& config);

// Chooses the held-out samples of a run, and sets train.heldout if it is auto and there are some.
// There are none where train.dev has them, where samples are drawn from words or sessions, and
// where too few can be spared; other data of a run that begins with this one's model may have some.
// Returns their numbers, which ascend. *note: a line for people; "" if train.heldout was 0. Errors
// (kBadInput): keys that contradict each other or the data.
Result<std::vector<uint32_t>> HoldOut(const Dataset& data, Config* config, std::string* note);

}  // namespace dslide
