// Samples that visit some servers only: those that own their labels, and m others at random.
//
// A server that a sample visits at random stands for those that it does not: what it adds to the
// sample's softmax, and the gradients of that, are multiplied by 1 / its inclusion probability. So
// the partition function is without bias, and so are the gradients of its neurons but for what the
// noise of the partition function does to them. All of it is done to the messages of a batch; the
// servers compute as always.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/config.h"
#include "common/wire/messages.h"
#include "tools/bench/cells/bench_cluster.h"

namespace dslide::cells {

struct VisitRules {
  uint32_t random = 0;         // m, of the servers that own no label of a sample
  bool embed_visited = false;  // input rows, too, only of the servers that are visited
  uint32_t count_every = 16;   // batches between those whose bytes are counted
};

class Visits : public MessageHook {
 public:
  // REQUIRES a plan in which every server has rows of both layers. Both must outlive this.
  Visits(const Config& config, const Plan& plan, const VisitRules& rules);

  void Begin(uint64_t number, const SparseRows& labels) override;
  void Sent(uint32_t server, Body* request) override;
  void Received(uint32_t server, Body* reply) override;

  // By server, of the batch at hand: 0: not visited; 1: owns a label, or all are visited; else 1 /
  // inclusion probability.
  const std::vector<std::vector<float>>& weights() const { return weights_; }

  // Of the messages of some batches, with the samples that visit only, as encoded in bf16.
  double bytes_per_sample() const;
  double visits_per_sample() const;

 private:
  void Count(uint32_t server, const Body& body);
  void Weigh(uint32_t server, Matrix* rows) const;

  const Config& config_;
  const Plan& plan_;
  VisitRules rules_;
  SlotRange neurons_;
  std::vector<std::vector<float>> weights_;  // [S][B]
  bool counting_ = false;
  uint64_t samples_ = 0, visits_ = 0;         // of all batches
  uint64_t counted_samples_ = 0, bytes_ = 0;  // of those counted
};

}  // namespace dslide::cells
