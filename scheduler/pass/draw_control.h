// How many neurons a batch draws (model.active = mass): as many as the wanted error of the softmax
// normaliser needs.
//
// The error of an estimated sum falls with the root of the number of draws. It is small while the
// softmax is flat, early in training, and grows as each sample's probabilities gather on neurons
// that the batch's common draws may lack. So the number follows the error that workers report.
#pragma once

#include <cstdint>

#include "common/config/config.h"
#include "common/wire/messages.h"

namespace dslide {

class DrawControl {
 public:
  static constexpr uint32_t kLeast = 1000;  // below that the rest of a batch is what costs
  static constexpr uint32_t kMost = 20'000;

  // With model.negatives given, and in synchronous training, where a batch must not depend on what
  // was reported before it, the number stays as it is.
  explicit DrawControl(const Config& config);

  uint32_t draws() const { return static_cast<uint32_t>(draws_); }

  // A batch that counts.
  void Take(const BatchDone& done);

 private:
  bool fixed_;
  double wanted_;  // model.tail_error
  double least_;
  double most_;
  double draws_;
};

}  // namespace dslide
