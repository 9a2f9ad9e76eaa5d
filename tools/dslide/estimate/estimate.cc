#include "tools/dslide/estimate/estimate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "common/base/check.h"
#include "common/run/slot_plan.h"
#include "scheduler/balance/model_size.h"
#include "scheduler/plan/memory_check.h"
#include "server/core/reply_cache.h"
#include "server/core/request_table.h"

namespace dslide {
namespace {

constexpr double kHeaders = 1.045;  // TCP, IP and Ethernet: bytes on a link / bytes of messages

// How the first slot plan spreads the model over equal servers.
struct Spread {
  double input_servers = 0, neuron_servers = 0;  // with such rows
  uint64_t most_bytes = 0;                       // of one server
};
Spread SpreadOver(uint32_t servers, const Config& config) {
  const Plan plan = EqualPlan(1, config.cluster.slots, std::vector<PlanServer>(servers));
  const auto with = [&](const SlotRange& slots) {
    return static_cast<double>(std::ranges::count(ServersWith(plan, slots), true));
  };
  const std::vector<uint64_t> bytes = SlotMemoryBytes(config);
  std::vector<uint64_t> of(servers);
  for (uint32_t slot = 0; slot < config.cluster.slots; ++slot) {
    of[plan.slot_owner[slot]] += bytes[slot];
  }
  return {with(InputSlots(config.cluster)), with(OutputSlots(config.cluster)),
          *std::ranges::max_element(of)};
}

uint64_t AllowedBytes(const Config& config, const Machines& machines) {
  if (config.cluster.memory_mb > 0) return uint64_t{config.cluster.memory_mb} << 20;
  return machines.memory_bytes / 10 * 8 / (machines.mbit > 0 ? 1 : machines.servers);
}

// Bytes of rows and of the replies that the fullest server keeps for repeated requests, after
// `batches`. `bytes_received`: by workers, a sample, from each server.
double KeptBytes(const Spread& spread, uint64_t allowed, const Config& config, double workers,
                 double batches, double bytes_received) {
  constexpr double kReplies = 2;  // of a batch, at least
  const double kept = std::min<double>(ReplyCache::kKept, kReplies * batches / workers);
  const double bytes = workers * kept * bytes_received * config.train.batch / kReplies;
  return static_cast<double>(spread.most_bytes) +
         std::min(static_cast<double>(RequestLimits::For(allowed, config).replies), bytes);
}

// Bytes a sample that workers send and receive, and their sum by the rows in the messages. The
// factors are numbers of servers with such rows, here / in the measured run: each such server gets
// and gives a whole matrix, but only its part of the features.
struct Traffic {
  double sent = 0, received = 0;
  double neurons = 0, input = 0;
};
Traffic TrafficOf(const MeasuredRun& run, double neuron_factor, double input_factor) {
  static const std::set<std::string_view> kReplies = {"ActiveReply", "GradientReply", "EmbedReply"};
  Traffic traffic;
  for (const auto& [message, bytes] : run.bytes) {
    const bool of_neurons = message.starts_with("Active") || message.starts_with("Gradient");
    const double features = message == "EmbedPush" ? std::min(run.lease_bytes, bytes) : 0;
    const double factor = of_neurons ? neuron_factor : input_factor;
    const double to_all = features + factor * (bytes - features);
    (kReplies.contains(message) ? traffic.received : traffic.sent) += to_all;
    (of_neurons ? traffic.neurons : traffic.input) += to_all;
  }
  return traffic;
}

// Bytes a sample at the server that exchanges the most.
double BusiestServer(const Traffic& traffic, const Spread& spread, double servers) {
  const double input = traffic.input / spread.input_servers,
               neurons = traffic.neurons / spread.neuron_servers;
  const bool has_both = spread.input_servers + spread.neuron_servers > servers;
  return has_both ? input + neurons : std::max(input, neurons);
}

double InFlight(const TrainConfig& train, uint32_t workers) {
  constexpr double kFewest = 2;  // of a worker that adapts (worker/in_flight_control.h)
  if (IsSynchronous(train)) {
    return std::max(1.0, 1.0 * train.target_batch / train.batch) * (1 + train.staleness);
  }
  return workers * (train.batches_in_flight > 0 ? train.batches_in_flight : kFewest);
}

}  // namespace

Throughput ThroughputOf(const std::vector<Station>& stations, double alone_seconds,
                        double in_flight, bool adapts) {
  const auto busiest = std::ranges::max_element(stations, {}, &Station::seconds);
  DSLIDE_CHECK(busiest != stations.end() && busiest->seconds > 0 && in_flight >= 1);
  const double alone = std::max(alone_seconds, busiest->seconds);
  Throughput bounds;
  bounds.bottleneck = busiest->name;
  bounds.high = 1 / busiest->seconds;
  if (!adapts) bounds.high = std::min(bounds.high, in_flight / alone);
  bounds.low = in_flight / (alone + (in_flight - 1) * busiest->seconds);
  return bounds;
}

ExactFigures ExactFiguresOf(Config config, const Machines& machines) {
  config.cluster.servers = machines.servers;
  const uint64_t allowed = AllowedBytes(config, machines);
  return {ParameterCount(config.model), ModelMemoryBytes(config),
          SpreadOver(machines.servers, config).most_bytes, allowed,
          WhyAllTooSmall(allowed, config)};
}

Estimate EstimateRun(const EstimatedTask& task, const Machines& machines, const MeasuredRun& run) {
  const Config& config = task.config;
  const double servers = machines.servers, cores = machines.cores, workers = machines.workers,
               batch = config.train.batch;
  const Spread here = SpreadOver(machines.servers, config),
               there = SpreadOver(run.server.count, config);
  const Traffic traffic = TrafficOf(run, here.neuron_servers / there.neuron_servers,
                                    here.input_servers / there.input_servers),
                measured = TrafficOf(run, 1, 1);
  Estimate to;
  to.bytes_sent = traffic.sent;
  to.bytes_received = traffic.received;
  to.lease_bytes = run.lease_bytes;

  const uint64_t allowed = AllowedBytes(config, machines);
  const auto kept = [&](const Spread& spread, double of_workers, double batches,
                        const Traffic& at) {
    const double from_each = at.received / std::max(spread.neuron_servers, spread.input_servers);
    return KeptBytes(spread, allowed, config, of_workers, batches, from_each);
  };
  const double all_batches = run.batches / run.share;
  const double more = kept(here, workers, all_batches, traffic) -
                      kept(there, run.worker.count, run.batches, measured);
  to.server_bytes =
      static_cast<uint64_t>(std::max(0.0, static_cast<double>(run.server.peak_bytes) + more));
  to.worker_bytes = run.worker.peak_bytes;
  to.scheduler_bytes = run.scheduler.peak_bytes;

  to.server_cpu_us = run.server.cpu_us;
  to.worker_cpu_us = run.worker.cpu_us;
  to.scheduler_cpu_us = run.scheduler.cpu_us;
  double all_us = to.server_cpu_us + to.worker_cpu_us + to.scheduler_cpu_us;
  if (machines.core_rate > 0) {
    const double slower = 1e6 / machines.core_rate / all_us;
    for (double* us : {&to.server_cpu_us, &to.worker_cpu_us, &to.scheduler_cpu_us, &all_us}) {
      *us *= slower;
    }
  }
  to.core_samples_per_second = 1e6 / all_us;

  // Seconds of a batch.
  const bool apart = machines.mbit > 0;
  const double second = batch * 1e-6;
  const double executors = config.cluster.executors > 0
                               ? config.cluster.executors
                               : std::max(1.0, cores / (apart ? 1 : servers));
  const double at_server = second * to.server_cpu_us /
                           std::min<double>(servers, config.cluster.slots) /
                           std::min(executors, cores);
  double alone = second * to.worker_cpu_us + at_server;
  std::vector<Station> stations = {{"CPU of servers", at_server},
                                   {"CPU of workers", second * to.worker_cpu_us / workers},
                                   {"CPU of the scheduler", second * to.scheduler_cpu_us}};
  double busiest_link = 0;
  if (!apart) {
    stations.push_back({"CPU of this machine", second * all_us / cores});
  } else {
    const double link = second * 8 * kHeaders / machines.mbit;  // of a byte a sample
    const double sent = to.bytes_sent, received = to.bytes_received + to.lease_bytes;
    const double fuller = std::max(sent, received);  // both directions are used at once
    const double at_links[] = {
        link * fuller / workers,
        link * BusiestServer(traffic, here, servers) * fuller / (sent + received),
        link * to.lease_bytes,
    };
    stations.push_back({"links of workers", at_links[0]});
    stations.push_back({"links of servers", at_links[1]});
    stations.push_back({"link of the scheduler", at_links[2]});
    busiest_link = std::ranges::max(at_links);
    alone += link * (sent + received);
  }
  const TrainConfig& train = config.train;
  const bool adapts = train.batches_in_flight == 0 && !IsSynchronous(train);
  const Throughput bounds =
      ThroughputOf(stations, alone, InFlight(train, machines.workers), adapts);
  to.bottleneck = bounds.bottleneck;
  to.low = batch * bounds.low;
  to.high = batch * bounds.high;
  to.likely = std::sqrt(to.low * to.high);
  to.seconds = static_cast<double>(task.samples) * train.epochs / to.likely;
  to.link_busy = busiest_link * to.likely / batch;
  return to;
}

}  // namespace dslide
