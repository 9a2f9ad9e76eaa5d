// Makes a Model of rows in any order, in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/math/kernels.h"
#include "common/model/model.h"

namespace dslide {

class ModelBuilder {
 public:
  // `info`: its config is resolved. `preprocessor`: null, if the model's samples are numbers.
  ModelBuilder(ModelInfo info, std::shared_ptr<const Preprocessor> preprocessor,
               const Kernels& kernels);

  // The weights of an input row ([H_1]; D for the bias, then those of dense layers), and of a
  // neuron ([H]). Several threads may call them for different rows. A row that is not set is zero.
  void SetInput(uint32_t feature, const float* weights);
  void SetNeuron(uint32_t label, const float* weights, float bias);

  struct Options {
    bool int8_only = false;  // rows in int8 only: a third of the size, scores to about 1 %
    uint32_t cells = 0;      // 0: DefaultCells()
    size_t threads = 1;
  };
  // How many training samples each label has, [N]; empty or not called: unknown.
  void SetLabelCounts(std::vector<uint32_t> counts) { label_counts_ = std::move(counts); }

  // A model without an index: its probes are 0 (see index_probes.h). Call once.
  std::shared_ptr<const Model> Finish(const Options& options) &&;

 private:
  ModelInfo info_;
  std::shared_ptr<const Preprocessor> preprocessor_;
  const Kernels& kernels_;
  std::vector<uint16_t> input_;    // [(D + 1 + R) x H_1]
  std::vector<uint16_t> weights_;  // [N x H]
  std::vector<float> biases_;      // [N]
  std::vector<uint32_t> label_counts_;
};

}  // namespace dslide
