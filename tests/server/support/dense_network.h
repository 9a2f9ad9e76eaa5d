// The model of server/README.md in plain double loops: the specification that the system is tested
// against. Written from the formulas; shares no numeric code with the product.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/config.h"
#include "common/wire/messages.h"

namespace dslide {

// Adam (Kingma & Ba 2015, algorithm 1), row-wise AdaGrad or SGD on one row and its bias.
struct DenseRow {
  std::vector<double> w;  // weights, then the bias
  std::vector<double> m, v;
  double accumulator = 0;
  uint32_t steps = 0;

  void Update(const TrainConfig& train, double rate, const std::vector<double>& g, bool decay);
};

class DenseNetwork {
 public:
  // [D + 1 + R]; D is the hidden bias, the R behind are of dense layers: of each the units, then
  // the biases, in so many whole rows as they fill.
  std::vector<DenseRow> input;
  std::vector<DenseRow> output;  // [N]

  struct Forward {
    // relu(sum_f x_f E_f + b1), without relu if linear, and what follows
    std::vector<std::vector<double>> layers;
    std::vector<double> h;       // the last one
    std::vector<double> logits;  // [N]
    std::vector<double> target;  // [N], softmax: sums to 1; sigmoid: 0 or 1
  };

  // A parameter of a dense layer: the row, and the place in it.
  struct Place {
    size_t row;
    size_t column;
  };
  struct Layer {
    size_t in, out, first;  // row of `input`
  };
  static std::vector<Layer> LayersOf(const Config& config);
  static Place WeightAt(const Config& config, const Layer& layer, size_t unit, size_t from);
  static Place BiasAt(const Config& config, const Layer& layer, size_t unit);

  Forward Run(const Config& config, const LeaseBatch& batch, uint32_t i) const;

  // Loss of one sample; a sample without labels has no softmax loss.
  static double SampleLoss(const Config& config, const Forward& f);

  double LossSum(const Config& config, const LeaseBatch& batch) const;

  // One step at learning rate `rate` on the mean of weight times loss. A sample of weight 0 is not
  // there, but counts in the mean. Returns the sum of the losses before it.
  double Train(const Config& config, const LeaseBatch& batch, double rate);
};

}  // namespace dslide
