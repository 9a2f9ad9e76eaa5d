// The servers of a cluster in this process, an executor each, and a worker that takes one batch
// after the other through them: training without network, encoding and threads. Without a lag each
// batch sees all updates of those before it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "common/config/config.h"
#include "common/data/dataset.h"
#include "common/wire/messages.h"
#include "server/executor/executor.h"
#include "worker/batch_flight.h"

namespace dslide::cells {

// Sees, and may change, what a batch's requests and replies say.
class MessageHook {
 public:
  virtual ~MessageHook() = default;
  virtual void Begin(uint64_t number, const SparseRows& labels) = 0;
  virtual void Sent(uint32_t server, Body* request) = 0;
  virtual void Received(uint32_t server, Body* reply) = 0;
};

class BenchCluster {
 public:
  // `config` is resolved, and must outlive this. `batches`: of an epoch; they fix the schedules.
  // `lag`: a batch ends when so many others have begun after it, as where several are in flight.
  // Its neurons are scored, and updated, halfway.
  BenchCluster(const Config& config, uint64_t batches, uint32_t servers, uint32_t lag = 0);

  // Trains on one batch. `number`: of the run, each at most once; it is the place in the schedules.
  // REQUIRES no lag if there is a hook. Throws std::runtime_error if the model has diverged.
  void Train(uint64_t number, LeaseBatch batch, MessageHook* hook = nullptr);
  // Ends the batches in flight. Call at the end of an epoch.
  void Finish();
  // The best k labels of samples, all of which are neurons' of this cluster.
  TopKReply Rank(LeaseBatch batch, uint32_t k);

  const Plan& plan() const { return plan_; }
  Executor& executor(uint32_t server) { return *executors_[server]; }
  double loss_sum() const { return loss_sum_; }  // of all batches trained

 private:
  struct Open {
    std::unique_ptr<BatchFlight> flight;
    uint64_t age = 0;     // batches that have begun since
    uint64_t stages = 0;  // that are done
  };

  // Takes a batch through its present stage.
  void Advance(BatchFlight* flight, MessageHook* hook);
  void DropEnded();
  Body Serve(uint32_t server, Body request);

  const Config& config_;
  uint64_t batches_;
  Plan plan_;
  std::vector<std::unique_ptr<Executor>> executors_;  // [S]
  uint32_t lag_;
  std::deque<Open> open_;  // oldest first
  double loss_sum_ = 0;
};

// The samples of `data` with these numbers.
LeaseBatch BatchOf(const Dataset& data, std::span<const uint32_t> numbers);

}  // namespace dslide::cells
