// This server's parts of the losses of batches in training. A receipt carries it to the
// scheduler (section 16 of schema/PROTOCOL.md), so that nobody has to believe a worker's figure.
//
// The softmax loss of sample i is log Z_i - t_i, where t_i is the sum of target * logit over all
// servers. Each server's part has its own -t_i; log Z_i, which a worker has from all servers'
// sums, is in the part of the first server of the plan that has neurons. With the sigmoid loss a
// part is complete by itself. Samples are multiplied by their weights, and those without labels
// have no softmax loss. So the parts of all servers add up to the loss of the batch.
//
// Pure; owned by the network thread. Bounded: the batches that began first are forgotten.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/wire/messages.h"
#include "server/base/seat.h"

namespace dslide {

class LossBook {
 public:
  static constexpr size_t kMostBatches = 65536;
  static constexpr size_t kMostWeights = size_t{8} << 20;  // numbers, of all batches

  // The reply to an ActiveQuery, of all executors.
  void OnReply(Incarnation worker, const ActiveQuery& query, const ActiveReply& reply,
               const ServerSeat& seat);
  void OnPush(Incarnation worker, const GradientPush& push);
  // nullopt: it is not known any more.
  std::optional<double> PartOf(Incarnation worker, const BatchId& batch) const;
  void Forget(Incarnation worker, const BatchId& batch);
  void DropWorker(Incarnation worker);

  size_t size() const { return batches_.size(); }

 private:
  using Key = std::pair<Incarnation, BatchId>;
  struct Batch {
    double part = 0;                  // without log Z
    double log_sum = 0;               // of log Z
    bool complete = true;             // false: log Z is this server's to add, and has not come
    std::vector<float> weights = {};  // [B] of log Z; none: it is not this server's to add
    std::list<Key>::iterator order;
  };

  Batch& Begin(const Key& key);
  void Erase(std::map<Key, Batch>::iterator at);

  std::map<Key, Batch> batches_;
  std::list<Key> order_;  // as they began
  size_t weights_ = 0;
};

}  // namespace dslide
