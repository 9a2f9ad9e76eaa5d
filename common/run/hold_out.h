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
// above 10 %.
uint32_t DerivedHeldOut(uint64_t samples);

// Chooses at most `wanted` samples that have labels; returns their numbers, which ascend.
//
// A hash of a sample's features and their values, with the seed, decides. So all machines choose
// the same samples, samples with equal features stay together, and the order of the file has no
// influence. Each label keeps at least one sample that is trained. REQUIRES that the samples are
// stored.
std::vector<uint32_t> ChooseHeldOut(const Dataset& data, uint64_t seed, uint32_t wanted);

// Chooses the held-out samples of a run, and sets train.heldout if it is auto: to 0 where train.dev
// has the held-out samples, where samples are drawn from words or sessions, and where too few can
// be spared. Returns their numbers, which ascend. *note: a line for people; "" if train.heldout was
// 0. Errors (kBadInput): keys that contradict each other or the data.
Result<std::vector<uint32_t>> HoldOut(const Dataset& data, Config* config, std::string* note);

}  // namespace dslide
