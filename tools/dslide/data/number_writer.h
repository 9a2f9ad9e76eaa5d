// Writes samples of numbers in one of the formats for them (common/data/numbers/number_file.h). An
// output has its name once it is complete.
#pragma once

#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/data/dataset.h"
#include "common/data/numbers/number_file.h"

namespace dslide {

class NumberWriter {
 public:
  // `path` of npz is "X.npz,Y.npz"; the others are compressed by their names, .gz or .zst. Errors
  // (kBadInput) name the path.
  static Result<std::unique_ptr<NumberWriter>> Create(const std::string& path, NumberFormat format);
  virtual ~NumberWriter() = default;

  // Finish() reports a failure.
  virtual void Add(const SampleView& sample) = 0;
  // REQUIRES sizes above all ids that were added.
  virtual Status Finish(const ModelSize& size) = 0;
};

}  // namespace dslide
