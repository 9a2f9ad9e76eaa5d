// A cluster in one thread for tests: servers with their executors, driven by a BatchFlight.
//
// Every request and reply passes Encode() and Decode(), and the executors' parts are gathered as a
// real server does, so only sockets and threads are missing.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "common/base/random.h"
#include "common/math/kernels.h"
#include "common/run/slot_plan.h"
#include "server/executor/executor.h"
#include "tests/server/support/test_batches.h"
#include "worker/batch_flight.h"

namespace dslide {

Body OverTheWire(Body body, WirePrecision precision);

// If config.cluster.disk_tier is a directory, the executor has as few rows in memory as it can, the
// input rows by threads and the neurons by io_uring. Call before it has rows.
void LimitMemory(const Config& config, Executor* executor);

class LocalCluster {
 public:
  // `executors[s]` executors in server s. `initialise`: with the seed's weights, otherwise all
  // zero.
  LocalCluster(const Config& config, uint64_t train_samples, const std::vector<uint32_t>& executors,
               bool initialise = true);

  // Trains batch number `step` of the run. The servers answer in an order that changes by the step.
  BatchDone Train(LeaseBatch batch, uint64_t step);

  // Batch number `number` of the run at the beginning of its way.
  BatchFlight Flight(LeaseBatch batch, uint64_t number) const;

  // Takes a flight of worker `sender` through one stage; server `first` is asked first.
  void TrainStage(BatchFlight* flight, uint64_t first, Incarnation sender = {1});

  // Synchronous training: the first `committed` steps count from here on, on all servers.
  void Commit(uint64_t committed);

  // A server's reply to a worker, over the wire.
  Body Ask(uint32_t server, Body body, Incarnation sender = {1});
  // What the executors of a server answer to a request, in their order.
  std::vector<Body> Parts(uint32_t server, const Body& request, Incarnation sender = {1});
  // The executors' reply to one round.
  Body AskExecutors(uint32_t server, const Body& request, Incarnation sender = {1});

  // The row of a feature (kInput; id D is the hidden bias) or a neuron, wherever it lives.
  RowView Row(LayerKind kind, uint32_t id);

  const Config& config() const { return config_; }
  const std::vector<std::unique_ptr<Executor>>& server(uint32_t s) const { return servers_[s]; }
  std::vector<Executor*> executors();

 private:
  Config config_;
  uint64_t train_samples_;
  Plan plan_;
  std::vector<std::vector<std::unique_ptr<Executor>>> servers_;
};

}  // namespace dslide
