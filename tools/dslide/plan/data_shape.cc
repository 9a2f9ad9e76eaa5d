#include "tools/dslide/plan/data_shape.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/check.h"
#include "common/run/slot_rows.h"
#include "common/wire/wire_arrays.h"

namespace dslide {
namespace {

// The ids of `rows` that server 0, 1, ... of `servers` would own, the slots in equal ranges: bytes
// of their gaps, in all.
size_t GapBytesOver(const SparseRows& rows, const SlotRange& range, uint32_t servers) {
  std::vector<SparseRows> parts(servers);
  for (uint32_t i = 0; i < rows.rows(); ++i) {
    for (const uint32_t id : rows.Ids(i)) {
      const uint64_t slot = range.SlotOf(id).value - range.first;
      parts[slot * servers / range.count].ids.push_back(id);
    }
    for (SparseRows& part : parts) part.EndRow();
  }
  size_t bytes = 0;
  for (const SparseRows& part : parts) bytes += PackGaps(part.offsets, part.ids).size();
  return bytes;
}

IdShape ShapeOf(const std::vector<const SparseRows*>& batches, const SlotRange& range) {
  IdShape shape;
  double ids = 0, samples = 0, lengths = 0;
  for (const SparseRows* rows : batches) {
    ids += static_cast<double>(rows->ids.size());
    samples += rows->rows();
    shape.distinct += static_cast<double>(std::set(rows->ids.begin(), rows->ids.end()).size());
    for (uint32_t i = 0; i < rows->rows(); ++i) {
      const auto length = static_cast<uint32_t>(rows->Ids(i).size());
      lengths += static_cast<double>(PackNumbers({&length, 1}).size());
    }
  }
  shape.per_sample = ids / samples;
  shape.distinct /= static_cast<double>(batches.size());
  shape.length_bytes = lengths / samples;
  for (size_t split = 0; split < IdShape::kSplits; ++split) {
    double bytes = 0;
    const uint32_t servers = std::min(1u << split, range.count);
    // A few batches are enough, and the splits over many servers take longer.
    const size_t some = std::min<size_t>(batches.size(), 8);
    double counted = 0;
    for (size_t b = 0; b < some; ++b) {
      bytes += static_cast<double>(GapBytesOver(*batches[b], range, servers));
      counted += static_cast<double>(batches[b]->ids.size());
    }
    shape.gap_bytes[split] = counted > 0 ? bytes / counted : 1;
  }
  return shape;
}

}  // namespace

double IdShape::GapBytes(double servers) const {
  const double place = std::clamp(std::log2(servers), 0.0, static_cast<double>(kSplits - 1));
  const auto below = std::min(static_cast<size_t>(place), kSplits - 2);
  const double share = place - static_cast<double>(below);
  return (1 - share) * gap_bytes[below] + share * gap_bytes[below + 1];
}

DataShape MeasureShape(const std::vector<LeaseBatch>& batches, const Config& config) {
  DSLIDE_CHECK(!batches.empty() && batches.front().features.rows() > 0);
  std::vector<const SparseRows*> features, labels;
  DataShape shape;
  for (const LeaseBatch& batch : batches) {
    features.push_back(&batch.features);
    labels.push_back(&batch.labels);
    shape.weighted |= !batch.weights.empty();
  }
  shape.features = ShapeOf(features, InputSlots(config.cluster));
  shape.labels = ShapeOf(labels, OutputSlots(config.cluster));
  return shape;
}

}  // namespace dslide
