#include "common/data/measures/data_facts.h"

#include <algorithm>
#include <vector>

#include "common/data/measures/label_counts.h"

namespace dslide {

DataFacts DataFactsOf(const Dataset& train, uint64_t trained) {
  DataFacts facts{.samples = trained, .label_repeats = 0, .median_label = 0};
  std::vector<uint64_t> counts;
  double sum = 0, squares = 0;
  for (const LabelCount& label : CountLabels(train)) {
    const auto n = static_cast<double>(label.count);
    sum += n;
    squares += n * n;
    counts.push_back(label.count);
  }
  if (counts.empty()) return facts;
  facts.label_repeats = squares / sum;
  const auto middle = counts.begin() + static_cast<ptrdiff_t>(counts.size() / 2);
  std::ranges::nth_element(counts, middle);
  facts.median_label = *middle;
  return facts;
}

}  // namespace dslide
