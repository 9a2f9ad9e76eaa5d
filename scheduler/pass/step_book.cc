#include "scheduler/pass/step_book.h"

#include <algorithm>

#include "common/base/check.h"

namespace dslide {

StepBook::StepBook(uint64_t batches, uint64_t step_batches, uint64_t first_step, uint64_t staleness)
    : batches_(batches),
      step_batches_(step_batches),
      first_step_(first_step),
      staleness_(staleness) {
  DSLIDE_CHECK(step_batches > 0);
  for (uint64_t begin = 0; begin < batches; begin += step_batches) {
    left_.push_back(std::min(step_batches, batches - begin));
  }
}

uint64_t StepBook::EndOf(uint64_t step) const {
  return std::min(batches_, (step + 1) * step_batches_);
}

void StepBook::Done(uint64_t number) {
  DSLIDE_CHECK(number < batches_);
  uint64_t& left = left_[number / step_batches_];
  DSLIDE_CHECK(left > 0);
  --left;
  while (complete_ < left_.size() && left_[complete_] == 0) ++complete_;
}

}  // namespace dslide
