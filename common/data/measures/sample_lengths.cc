#include "common/data/measures/sample_lengths.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace dslide {

SampleLengths::SampleLengths(const Dataset& data) {
  lengths_.reserve(data.size());
  for (size_t i = 0; i < data.size(); ++i) Add(data[i].values);
}

void SampleLengths::Add(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * double{value};
  if (squares > 0) lengths_.push_back(static_cast<float>(std::sqrt(squares)));
}

LengthSpread SampleLengths::Spread() const {
  DSLIDE_CHECK(!empty());
  std::vector<float> lengths = lengths_;
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>((lengths.size() - 1) / 2);
  std::ranges::nth_element(lengths, middle);
  const auto [least, most] = std::ranges::minmax(lengths_);
  return {least, *middle, most};
}

float MedianLength(const Dataset& train) {
  if (train.drawn() != nullptr) return 1;
  const SampleLengths lengths(train);
  return lengths.empty() ? 1 : lengths.Spread().median;
}

}  // namespace dslide
