// The exchange of changed rows between groups that each have a copy of one layer.
//
// All groups share a row's *base*, its value after the last exchange, and the layers of all groups
// are in this process. An exchange takes the rows that some group has touched. Each such group
// sends its change since the base, rounded to 8 bits; the changes are merged (merge.h), the merged
// change is rounded again, and all bases move by it. What rounding has cut off of a change stays in
// the group's own row, and so it is in its next change; what it has cut off of a merged change is
// kept for the next one of that row. A change with a small norm may be held back: it stays in the
// group's row in the same way.
//
// AdaGrad's accumulators go with their rows, and so do their touches. The masses that neurons are
// drawn by stay the group's own.
//
// Two ways to send are counted: each group to every other one, and each group to the row's owner,
// which sends the merged row to the others (groups own equal shares of the rows).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "server/rows/layer.h"
#include "tools/bench/cells/merge.h"

namespace dslide::cells {

// How much of the growth of a row's accumulator in n groups together its base takes.
enum class SumsRule {
  kAll,     // all of it
  kMean,    // 1 / n of it
  kFollow,  // |merged change|^2 / sum of |change|^2, from 1 / n to 1: all where changes were added,
            // the mean where they were averaged
};
// "all", "mean", "follow".
Result<SumsRule> ParseSumsRule(std::string_view name);

struct ExchangeRules {
  MergeRule rule = MergeRule::kSum;
  float few = 8;  // touches: MergeParts()
  SumsRule sums = SumsRule::kAll;
  float hold_back = 0;  // changes below this share of the last exchange's root mean square norm
  uint32_t least_touches = 1;  // rows with fewer updates since they were last sent wait
  float outer = 1;             // a merged change is multiplied by it
  float momentum = 0;          // Nesterov's, of merged changes, of each row on its own (DiLoCo's)
  bool round = true;           // to 8 bits; else nothing is rounded
};

struct Traffic {
  uint64_t exchanges = 0;
  uint64_t touched = 0;     // rows, of each group
  uint64_t sent = 0;        // of these
  uint64_t merged = 0;      // distinct rows
  double direct_bytes = 0;  // if every group sends to every other one
  double owner_bytes = 0;   // if groups send to owners, and these to all
  Traffic& operator+=(const Traffic& more);
};

// Bytes of a row in a message: id 4, scale 4, accumulator 4, touches 2, of a neuron the bias 4, and
// [dim] bytes.
double RowBytes(const Layer& layer);

class LayerExchange {
 public:
  // `layers`: a copy of the layer in each group, equal at first, fp32, of all rows. They must
  // outlive this.
  LayerExchange(std::vector<Layer*> layers, const ExchangeRules& rules);

  // `all`: nothing is held back.
  Traffic Exchange(bool all);
  // Makes a group's rows the bases.
  void TakeBase(size_t group);

 private:
  // One group's change of the row at hand.
  struct Change {
    std::vector<float> sent;  // [dim + 1], as it is received; empty: nothing is sent
    float touches = 0;
    float sum = 0;  // growth of the accumulator
  };

  bool Collect(uint32_t row, bool all);
  void CollectOf(size_t group, uint32_t row, bool all);
  void Merge(uint32_t row);
  float SumsFactor() const;
  void Spread(uint32_t row);
  void EndNorms();
  float* BaseOf(uint32_t row) { return base_.data() + size_t{row} * width_; }

  std::vector<Layer*> layers_;  // [G]
  ExchangeRules rules_;
  size_t dim_;
  size_t width_;                             // dim + 1: the bias is behind the weights
  std::vector<float> base_;                  // [rows x width]
  std::vector<float> cut_off_;               // [rows x width] by rounding merged changes
  std::vector<float> velocity_;              // [rows x width], with momentum
  std::vector<float> base_sum_;              // [rows] accumulators
  std::vector<std::vector<uint32_t>> told_;  // [G][rows] touches that were sent
  struct Norms {
    double squares = 0;
    uint64_t rows = 0;
    double threshold = 0;  // of the next exchange
  };
  std::vector<Norms> norms_;  // [G]
  Traffic traffic_;           // of the exchange at hand
  // Scratch of a row:
  std::vector<Change> changes_;  // [G]
  std::vector<RowPart> parts_;
  std::vector<float> merged_;  // [width]
  float growth_ = 0;           // of the base's accumulator
};

}  // namespace dslide::cells
