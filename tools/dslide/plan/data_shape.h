// What the data and the model's activity say about a run: sizes, and what a batch touches.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/config/config.h"
#include "common/wire/messages.h"

namespace dslide {

// Ids of one side of a batch (features, or labels).
struct IdShape {
  static constexpr size_t kSplits = 9;  // over 1, 2, 4, ... 256 servers

  double per_sample = 0;                    // ids, without the bias
  double distinct = 0;                      // in a batch
  double length_bytes = 1;                  // of a sample's number of ids, on the wire
  std::array<double, kSplits> gap_bytes{};  // of an id on the wire, if so many servers share them

  // Between the splits by their logarithm. REQUIRES servers > 0.
  double GapBytes(double servers) const;
};

struct DataShape {
  uint64_t samples = 0;
  uint64_t test_samples = 0;
  uint64_t held_out_samples = 0;
  IdShape features, labels;
  bool weighted = false;  // samples have weights
};

// Of `batches`, which are as a run would have them. `config` is resolved. REQUIRES a batch with a
// sample. The numbers of samples are the caller's to fill in.
DataShape MeasureShape(const std::vector<LeaseBatch>& batches, const Config& config);

// Shares of a batch's matrices that are not 0, in bf16 or fp32, and in int8, which rounds some
// elements of gradients to 0.
struct Activity {
  struct Share {
    double wide = 1;
    double int8 = 1;
    double Of(WirePrecision precision) const {
      return precision == WirePrecision::kInt8 ? int8 : wide;
    }
  };
  Share pre_activations;  // EmbedReply
  Share hidden;           // ActiveQuery
  Share hidden_gradient;  // GradientReply
  Share gradient;         // EmbedPush
};

}  // namespace dslide
