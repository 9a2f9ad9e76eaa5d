// What a training run costs on given machines: memory, disk, bytes on the links, CPU time and
// speed.
//
// Pure: rates of a machine (calibration.h), the shape of the data and the machines go in, figures
// come out. Bytes follow from the wire format (wire_bytes.h), speed from the queues that batches
// wait in (queueing.h), memory from the rows of the slots (scheduler/balance/model_size.h) and the
// batches in flight.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/config/config.h"
#include "common/wire/messages.h"
#include "tools/dslide/plan/data_shape.h"
#include "tools/dslide/plan/nodes.h"

namespace dslide {

// CPU seconds of the executors on a batch of one layer: of each executor that has such rows, and
// what they share.
struct LayerCost {
  double fixed = 0;
  double shared = 0;
};

// CPU seconds at the sender and at the receiver.
struct MessageCost {
  double encode = 0;
  double decode = 0;
};

// What rates depend on, by name and as text: the sizes of the data, and keys of the configuration.
using PlannedTask = std::vector<std::pair<std::string, std::string>>;
// Of a resolved configuration.
PlannedTask TaskOf(const Config& config);

// What a batch of such a task costs on one machine.
struct Rates {
  std::string machine;  // where it was measured, for people
  PlannedTask task;     // that was trained
  LayerCost neurons, input;
  double worker_seconds = 0;  // of a worker's arithmetic, with one server
  double sum_seconds = 0;     // to copy and to add up a B x H matrix
  double gather_seconds = 0;  // at a server, for each executor
  MessageCost embed_push, embed_reply, active_query, gradient_reply;
  MessageCost statistics;  // ActiveReply and GradientPush
  MessageCost lease;
  double send_seconds = 0;  // of a message's way through the sockets, at both ends together
  double byte_seconds = 0;
  double rows_per_batch = 0;    // neurons in the active set
  double epochs_trained = 0;    // when it was measured: what the activity is after
  double evaluate_seconds = 0;  // executors' CPU seconds to rank all neurons for a sample
  Activity activity;
};

// Epochs that cost the same.
struct EpochRates {
  double epochs = 0;
  Rates rates;
};

struct PlanInput {
  Config config;  // resolved
  DataShape shape;
  std::vector<EpochRates> epochs;  // at least one
  std::vector<PlannedNode> nodes;
  double core_speed = 1;  // of the nodes' cores / those that the rates are of
};

struct PlanEstimate {
  uint64_t parameters = 0;
  uint64_t model_bytes = 0;  // rows, optimiser state and tables
  // The most of any process of its kind.
  uint64_t server_bytes = 0;
  uint64_t worker_bytes = 0;
  uint64_t scheduler_bytes = 0;
  uint64_t checkpoint_bytes = 0;  // of all servers
  uint64_t disk_bytes = 0;        // with those that are kept and the one being written
  uint32_t servers = 0;
  uint32_t workers = 0;
  uint32_t executors = 0;  // of all servers

  // Messages of the worker to and from servers, a sample; the same of the busiest link between a
  // worker and a server, both ways; samples that the scheduler sends.
  double bytes_sent = 0;
  double bytes_received = 0;
  double bytes_per_link = 0;
  double lease_bytes = 0;
  WirePrecision wire = WirePrecision::kBf16;

  double server_cpu_us = 0;  // a sample, of all servers
  double worker_cpu_us = 0;
  double scheduler_cpu_us = 0;
  double samples_per_second = 0;
  double seconds = 0;      // to the end of the run, with evaluations
  uint32_t in_flight = 0;  // batches of a worker

  // What is busiest, and how much of the time it is.
  std::string bottleneck;
  double bottleneck_busy = 0;
};

// REQUIRES servers and workers among the nodes.
PlanEstimate EstimateRun(const PlanInput& input);

}  // namespace dslide
