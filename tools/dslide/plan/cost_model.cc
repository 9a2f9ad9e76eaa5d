#include "tools/dslide/plan/cost_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/balance/planner.h"
#include "common/base/check.h"
#include "common/config/config_keys.h"
#include "common/run/dense_layers.h"
#include "scheduler/balance/model_size.h"
#include "server/core/reply_cache.h"
#include "server/core/request_table.h"
#include "tools/dslide/plan/planned_servers.h"
#include "tools/dslide/plan/queueing.h"
#include "tools/dslide/plan/wire_bytes.h"
#include "worker/in_flight_control.h"

namespace dslide {
namespace {

constexpr double kHeaders = 1.045;  // bytes on a link / of messages: TCP, IP, Ethernet, ZMTP

// Of processes without a model and data, measured (tools/bench/RESULTS.md, "Plans").
constexpr double kServerBytes = 36 * kMb;
constexpr double kWorkerBytes = 16 * kMb;
constexpr double kSchedulerBytes = 27 * kMb;
constexpr double kVectorSlack = 1.35;  // of vectors that grow while a file is read
constexpr double kSnapshotBytes =
    64 * kMb;  // rows that wait to be written (CheckpointStore::Place)
// CPU seconds of the scheduler for a batch besides its lease: its report, the ledger.
constexpr double kReportSeconds = 120e-6;
// A lease's samples are gathered from memory that is in no cache, copied, then encoded.
constexpr double kLeaseWork = 3;

// Seconds of one executor of a server on a batch.
struct ExecutorSeconds {
  double neurons = 0;
  double input = 0;
};

ExecutorSeconds SecondsAt(const PlannedServer& server, const Rates& rates) {
  const auto of = [&](const LayerCost& cost, double share) {
    return share > 0 ? cost.fixed + cost.shared * share / server.executors : 0;
  };
  return {of(rates.neurons, server.part.neurons), of(rates.input, server.part.input)};
}

// The balancer moves slots when the busiest server has more than kBalanceThreshold of the
// mean load over capacity; then all are about as busy.
// Returns whether slots move.
bool Balance(const PlanInput& input, const std::vector<PlannedServer>& servers,
             std::vector<ExecutorSeconds>* seconds) {
  if (input.config.cluster.balance == Balance::kOff || IsSynchronous(input.config.train)) {
    return false;
  }
  double most = 0, work = 0, executors = 0;  // of servers with slots
  for (size_t s = 0; s < servers.size(); ++s) {
    const double load = (*seconds)[s].neurons + (*seconds)[s].input;
    if (load == 0) continue;
    most = std::max(most, load);
    work += load * servers[s].executors;
    executors += servers[s].executors;
  }
  if (executors == 0) return false;
  const double mean = work / executors;
  if (most <= kBalanceThreshold * mean) return false;
  for (ExecutorSeconds& at : *seconds) {
    const double load = at.neurons + at.input;
    if (load == 0) continue;
    at.neurons *= mean / load;
    at.input *= mean / load;
  }
  return true;
}

// Moved slots of input rows make one more server that is asked for them.
void ShareInputRows(std::vector<PlannedServer>* servers) {
  const auto without = std::ranges::find_if(
      *servers, [](const PlannedServer& server) { return server.part.input == 0; });
  if (without == servers->end()) return;
  const double before = without->part.input_servers;
  for (PlannedServer& server : *servers) {
    server.part.input *= before / (before + 1);
    server.part.input_servers = before + 1;
  }
  without->part.input = 1 / (before + 1);
}

// CPU seconds of a batch's messages with one server.
struct LinkSeconds {
  double server = 0;
  double worker = 0;
};

LinkSeconds MessageSeconds(const ServerPart& part, const MessageBytes& bytes, const Rates& rates) {
  LinkSeconds sum;
  double messages = 0;
  const auto request = [&](const MessageCost& cost) {
    sum.worker += cost.encode;
    sum.server += cost.decode;
    ++messages;
  };
  const auto reply = [&](const MessageCost& cost) {
    sum.server += cost.encode;
    sum.worker += cost.decode;
    ++messages;
  };
  if (part.neurons > 0) {
    request(rates.active_query);
    reply(rates.gradient_reply);
    if (part.neuron_servers > 1) {
      reply(rates.statistics);
      request(rates.statistics);
    }
  }
  if (part.input > 0) {
    request(rates.embed_push);
    reply(rates.embed_reply);
  }
  const double ways =
      (messages * rates.send_seconds + (bytes.sent() + bytes.received()) * rates.byte_seconds) / 2;
  sum.server += ways;
  sum.worker += ways;
  return sum;
}

// More units are active the longer a model has learned. The measurement of this machine is short,
// so its shares are too small; what whole runs had on average, by epochs and batch (0.27 of the
// units in one epoch of gnd-tibkat, 0.39 in three, 0.51 to 0.59 in eight, 0.70 in six of batches of
// 128), is too much where there is little to learn. The truth is between them
// (tools/bench/RESULTS.md, "Plans").
Activity ActivityOfRun(const Config& config, const Rates& rates) {
  constexpr double kFirst = 0.3, kGrowth = 0.37, kMost = 0.8;  // of the units that dropout leaves
  const double left = 1 - DropoutHidden(config.train);
  const double learned = config.train.epochs * std::sqrt(512.0 / config.train.batch);
  const double usual = left * std::min(kMost, kFirst * std::pow(std::max(1.0, learned), kGrowth));
  const double growth =
      std::pow(std::max(1.0, config.train.epochs / std::max(1.0, rates.epochs_trained)), kGrowth);
  Activity activity = rates.activity;
  if (config.model.neurons == Neurons::kCentroids) return activity;
  for (Activity::Share* share : {&activity.hidden, &activity.hidden_gradient, &activity.gradient}) {
    for (double* of : {&share->wide, &share->int8}) {
      const double grown = std::min(kMost * left, *of * growth);
      *of = std::max(*of, std::sqrt(grown * usual));
    }
  }
  return activity;
}

// A run with one set of rates. Messages between machines are in `precision`, those within a machine
// in what a free link has.
class Run {
 public:
  Run(const PlanInput& input, const Rates& rates, WirePrecision precision)
      : input_(input),
        rates_(rates),
        nodes_(static_cast<uint32_t>(input.nodes.size())),
        servers_(PlanServers(input)),
        workers_(WorkersOf(input.nodes)) {
    for (const PlannedServer& server : servers_) seconds_.push_back(SecondsAt(server, rates));
    if (Balance(input, servers_, &seconds_)) ShareInputRows(&servers_);
    AddBytes(ActivityOfRun(input.config, rates), precision);
    lease_bytes_ = LeaseBytes(input.config, input.shape);
    AddStations();
    AddChains();
    Fly();
  }

  double rate() const { return flow_.rate(); }
  double in_flight() const { return network_.chains.front().in_flight; }
  const std::vector<MessageBytes>& bytes() const { return bytes_; }
  const std::vector<PlannedServer>& servers() const { return servers_; }
  double lease_bytes() const { return lease_bytes_; }

  // CPU seconds of a batch.
  double server_seconds() const {
    double sum = 0;
    for (size_t s = 0; s < servers_.size(); ++s) {
      sum += (seconds_[s].neurons + seconds_[s].input) * servers_[s].executors + ThreadSeconds(s);
    }
    return sum;
  }
  double worker_seconds() const {
    double sum = WorkerSeconds();
    for (size_t s = 0; s < servers_.size(); ++s) sum += Messages(s).worker;
    return sum;
  }
  double scheduler_seconds() const {
    return kLeaseWork * rates_.lease.encode + kReportSeconds +
           (rates_.send_seconds * 2 + lease_bytes_ * rates_.byte_seconds) / 2;
  }

  // The busiest link of a node with a worker.
  double LinkBusy() const {
    double most = 0;
    for (uint32_t n = 0; n < nodes_; ++n) {
      if (input_.nodes[n].workers == 0) continue;
      most = std::max({most, flow_.station_busy[Up(n)], flow_.station_busy[Down(n)]});
    }
    return most;
  }

  struct Bottleneck {
    std::string what;
    double busy = 0;
  };
  Bottleneck Busiest() const {
    Bottleneck found;
    const auto consider = [&](const std::string& what, double busy) {
      if (busy > found.busy + 1e-9) found = {what, busy};
    };
    for (uint32_t n = 0; n < nodes_; ++n) {
      const PlannedNode& node = input_.nodes[n];
      const bool both = node.servers > 0 && node.workers > 0;
      const double links = std::max(flow_.station_busy[Up(n)], flow_.station_busy[Down(n)]);
      // Where a node has both, most of its link's bytes are those of the other nodes' workers.
      consider(both ? "links" : node.servers > 0 ? "server link" : "worker link", links);
    }
    for (size_t s = 0; s < servers_.size(); ++s) {
      consider("server CPU", flow_.station_busy[ExecutorsStation(s)]);
      consider("server CPU (network thread)", flow_.station_busy[ThreadStation(s)]);
    }
    for (uint32_t w = 0; w < workers_; ++w) {
      consider("worker CPU", flow_.station_busy[WorkerStation(w)]);
    }
    for (uint32_t n = 0; n < nodes_; ++n) consider(CoresOf(n), flow_.processor_busy[n]);
    return found;
  }

 private:
  // [servers] What a worker exchanges on average.
  void AddBytes(const Activity& activity, WirePrecision precision) {
    const WirePrecision near = FixedPrecision(input_.config.cluster.wire);
    for (const PlannedServer& server : servers_) {
      const auto in = [&](WirePrecision of) {
        return BytesOfBatch(input_.config, input_.shape, activity, server.part, of);
      };
      near_bytes_.push_back(in(near));
      far_bytes_.push_back(in(precision));
      const double share =
          static_cast<double>(input_.nodes[server.node].workers) / std::max(1u, workers_);
      bytes_.push_back(Mean(near_bytes_.back(), far_bytes_.back(), share));
    }
  }
  static MessageBytes Mean(const MessageBytes& near, const MessageBytes& far, double share) {
    MessageBytes mean;
    for (double MessageBytes::*kind :
         {&MessageBytes::active_query, &MessageBytes::gradient_push, &MessageBytes::embed_push,
          &MessageBytes::active_reply, &MessageBytes::gradient_reply, &MessageBytes::embed_reply}) {
      mean.*kind = share * near.*kind + (1 - share) * far.*kind;
    }
    return mean;
  }

  // Stations: links, then of every server executors and network thread, then workers.
  uint32_t Up(uint32_t node) const { return 2 * node; }
  uint32_t Down(uint32_t node) const { return 2 * node + 1; }
  uint32_t ExecutorsStation(size_t s) const { return static_cast<uint32_t>(2 * nodes_ + 2 * s); }
  uint32_t ThreadStation(size_t s) const { return ExecutorsStation(s) + 1; }
  uint32_t WorkerStation(uint32_t w) const {
    return static_cast<uint32_t>(2 * (nodes_ + servers_.size())) + w;
  }

  // Whose work fills the cores of a node.
  std::string CoresOf(uint32_t node) const {
    double of_servers = 0, of_workers = 0;
    for (size_t s = 0; s < servers_.size(); ++s) {
      if (servers_[s].node != node) continue;
      of_servers +=
          (seconds_[s].neurons + seconds_[s].input) * servers_[s].executors + ThreadSeconds(s);
    }
    const double share = static_cast<double>(input_.nodes[node].workers) / workers_;
    of_workers = worker_seconds() * share;
    return of_servers >= of_workers ? "server CPU" : "worker CPU";
  }

  LinkSeconds Messages(size_t s) const {
    return MessageSeconds(servers_[s].part, bytes_[s], rates_);
  }
  // Of the network thread.
  double ThreadSeconds(size_t s) const {
    const PlannedServer& server = servers_[s];
    const double gathered = (server.part.neurons > 0) + (server.part.input > 0);
    return Messages(s).server + rates_.gather_seconds * server.executors * gathered / 2;
  }
  double WorkerSeconds() const {
    double further = -2;
    for (const PlannedServer& server : servers_) {
      further += (server.part.neurons > 0) + (server.part.input > 0);
    }
    return rates_.worker_seconds + std::max(0.0, further) * rates_.sum_seconds +
           rates_.lease.decode + lease_bytes_ * rates_.byte_seconds / 2;
  }

  void AddStations() {
    for (const PlannedNode& node : input_.nodes) {
      network_.processors.push_back({node.cores, 0});
    }
    network_.stations.resize(WorkerStation(workers_));
    for (size_t s = 0; s < servers_.size(); ++s) {
      network_.stations[ExecutorsStation(s)] = {servers_[s].node, servers_[s].executors};
      network_.stations[ThreadStation(s)] = {servers_[s].node, 1};
    }
    uint32_t w = 0;
    for (uint32_t n = 0; n < nodes_; ++n) {
      for (uint32_t i = 0; i < input_.nodes[n].workers; ++i, ++w) {
        network_.stations[WorkerStation(w)] = {n, 1};
        worker_nodes_.push_back(n);
      }
    }
  }

  double LinkTime(uint32_t node, double bytes) const {
    const double rate = input_.nodes[node].bits_per_second;
    return rate > 0 ? bytes * kHeaders * 8 / rate : 0;
  }
  double CpuTime(double seconds) const { return seconds / input_.core_speed; }

  // An exchange with all servers that `executors` says take part.
  struct Exchange {
    double MessageBytes::*request;
    double MessageBytes::*reply;
    double share;  // of what the server's network thread and the worker do
    double ExecutorSeconds::*executors;
    double executors_share;
  };

  Stage StageOf(uint32_t w, const Exchange& exchange) const {
    const uint32_t home = worker_nodes_[w];
    Stage stage;
    double sent = 0, received = 0;
    for (size_t s = 0; s < servers_.size(); ++s) {
      const uint32_t node = servers_[s].node;
      const MessageBytes& bytes = node == home ? near_bytes_[s] : far_bytes_[s];
      const double request = bytes.*exchange.request, reply = bytes.*exchange.reply;
      if (request == 0) continue;
      std::vector<Visit> branch;
      if (node != home) {
        sent += request;
        received += reply;
        branch.push_back({Down(node), LinkTime(node, request)});
      }
      branch.push_back({ThreadStation(s),
                        CpuTime(ThreadSeconds(s) * exchange.share / Exchanges(servers_[s].part))});
      branch.push_back({ExecutorsStation(s),
                        CpuTime(seconds_[s].*exchange.executors * exchange.executors_share)});
      if (node != home) branch.push_back({Up(node), LinkTime(node, reply)});
      stage.branches.push_back(std::move(branch));
    }
    stage.before = {{WorkerStation(w), CpuTime(worker_seconds() * exchange.share)},
                    {Up(home), LinkTime(home, sent)}};
    stage.after = {{Down(home), LinkTime(home, received)}};
    return stage;
  }
  // How much of a batch's exchanges a server has a part in.
  double Exchanges(const ServerPart& part) const {
    return std::max(0.1, (part.neurons > 0 ? 0.6 : 0.0) + (part.input > 0 ? 0.4 : 0.0));
  }

  void AddChains() {
    const bool pushes = servers_.front().part.neuron_servers > 1;
    std::vector<Exchange> exchanges = {
        {&MessageBytes::embed_push, &MessageBytes::embed_reply, 0.4, &ExecutorSeconds::input, 1}};
    if (pushes) {
      exchanges.push_back({&MessageBytes::active_query, &MessageBytes::active_reply, 0.3,
                           &ExecutorSeconds::neurons, 0.5});
      exchanges.push_back({&MessageBytes::gradient_push, &MessageBytes::gradient_reply, 0.3,
                           &ExecutorSeconds::neurons, 0.5});
    } else {
      exchanges.push_back({&MessageBytes::active_query, &MessageBytes::gradient_reply, 0.6,
                           &ExecutorSeconds::neurons, 1});
    }
    for (uint32_t w = 0; w < workers_; ++w) {
      Chain chain;
      for (const Exchange& exchange : exchanges) chain.stages.push_back(StageOf(w, exchange));
      // Samples come from the scheduler, on the first node, while others are trained.
      if (worker_nodes_[w] != 0) {
        chain.stages.front().branches.push_back(
            {{Up(0), LinkTime(0, lease_bytes_)},
             {Down(worker_nodes_[w]), LinkTime(worker_nodes_[w], lease_bytes_)}});
      }
      network_.chains.push_back(std::move(chain));
    }
  }

  // Batches that a worker has at servers, on average (worker/in_flight_control.h).
  double AtServers(uint32_t chain) const {
    double service = 0;
    for (const Stage& stage : network_.chains[chain].stages) {
      double slowest = 0;
      for (const auto& branch : stage.branches) {
        double sum = 0;
        for (const Visit& visit : branch) {
          if (visit.station < 2 * nodes_) continue;
          sum += visit.seconds * flow_.stretch[chain][visit.station];
        }
        slowest = std::max(slowest, sum);
      }
      service += slowest;
    }
    return network_.chains[chain].in_flight * service / flow_.elapsed[chain];
  }

  void SolveWith(double in_flight) {
    for (Chain& chain : network_.chains) chain.in_flight = in_flight;
    flow_ = SolveFlow(network_);
    // The scheduler's work, on the first node.
    const double busy = flow_.rate() * CpuTime(scheduler_seconds());
    network_.processors.front().busy_cores = std::min(busy, network_.processors.front().cores / 2);
    flow_ = SolveFlow(network_);
  }

  // As many batches in flight as workers choose.
  void Fly() {
    const TrainConfig& train = input_.config.train;
    if (IsSynchronous(train)) {
      return SolveWith(
          std::max(1.0, static_cast<double>(train.target_batch) / train.batch / workers_));
    }
    if (train.batches_in_flight > 0) return SolveWith(train.batches_in_flight);
    uint32_t limit = InFlightControl::kFewest;
    SolveWith(limit);
    while (limit < InFlightControl::kMost && AtServers(0) < 1) {
      const double before = flow_.rate();
      const uint32_t next = std::min(InFlightControl::kMost, limit + std::max(1u, limit / 2));
      SolveWith(next);
      constexpr double kLeastGain = 0.25;  // as InFlightControl has it
      const double hoped = static_cast<double>(next) / limit;
      if (flow_.rate() < before * (1 + kLeastGain * (hoped - 1))) return SolveWith(limit);
      limit = next;
    }
  }

  const PlanInput& input_;
  const Rates& rates_;
  uint32_t nodes_;
  std::vector<PlannedServer> servers_;
  uint32_t workers_;
  std::vector<uint32_t> worker_nodes_;
  std::vector<ExecutorSeconds> seconds_;  // [servers] of one executor
  // [servers] With a worker on the same machine, with one on another, and on average.
  std::vector<MessageBytes> near_bytes_, far_bytes_, bytes_;
  double lease_bytes_ = 0;
  Network network_;
  Flow flow_;
};

// In the precision that workers would choose.
struct ChosenRun {
  Run run;
  WirePrecision precision;
};

ChosenRun RunWith(const PlanInput& input, const Rates& rates) {
  const Wire wire = input.config.cluster.wire;
  const WirePrecision fixed = FixedPrecision(wire);
  Run run(input, rates, fixed);
  // As worker/server_links.cc: int8 on links that are busy for half of the time and more, unless
  // they are idle then.
  constexpr double kBusy = 0.5, kIdle = 0.08;
  if (wire != Wire::kAuto || IsSynchronous(input.config.train) || run.LinkBusy() <= kBusy) {
    return {std::move(run), fixed};
  }
  Run narrow(input, rates, WirePrecision::kInt8);
  if (narrow.LinkBusy() < kIdle) return {std::move(run), fixed};
  return {std::move(narrow), WirePrecision::kInt8};
}

double DatasetBytes(uint64_t samples, const DataShape& shape) {
  return static_cast<double>(samples) *
         (8 * shape.features.per_sample + 4 * shape.labels.per_sample + 16);
}

// The neurons of a batch at the start of the run, when most are drawn.
double MostRows(const ModelConfig& model, const Rates& rates) {
  const double more = DrawsByMass(model) ? 0.5 * model.negatives : 0;
  return std::min<double>(model.labels, rates.rows_per_batch + more);
}

void AddMemory(const PlanInput& input, const Rates& rates, const Run& run, PlanEstimate* to) {
  const Config& config = input.config;
  const double batch = config.train.batch;
  const double hidden = std::max(config.model.hidden, OutputWidth(config.model));
  const double matrix = batch * hidden * sizeof(float);
  // A batch whose gradients are on their way no longer counts as in flight.
  const double open = (run.in_flight() + 1) * to->workers;
  double most = 0;
  for (size_t s = 0; s < run.servers().size(); ++s) {
    const PlannedServer& server = run.servers()[s];
    const double rows = static_cast<double>(server.slot_bytes);
    const double columns = MostRows(config.model, rates) * server.part.neurons;
    // Of each executor: the activations; of all: values of each sample and column, and features.
    const double of_batch = (server.part.neurons > 0 ? matrix * server.executors : 0) +
                            batch * columns * sizeof(float) +
                            batch * input.shape.features.per_sample * server.part.input * 12;
    // Replies are kept, so that a request that comes again has the same one.
    const MessageBytes& bytes = run.bytes()[s];
    const double replies =
        (bytes.active_reply > 0) + (bytes.gradient_reply > 0) + (bytes.embed_reply > 0);
    const auto allowed = static_cast<uint64_t>(AllowedBytes(input.nodes[server.node], config));
    const double kept = std::min(
        static_cast<double>(RequestLimits::For(allowed, config).replies),
        to->workers * double{ReplyCache::kKept} * bytes.received() / std::max(1.0, replies));
    most = std::max(most, kServerBytes + rows + std::min(rows, kSnapshotBytes) + kept +
                              open * (of_batch + bytes.sent()));
  }
  to->server_bytes = std::max(to->server_bytes, static_cast<uint64_t>(most));
  constexpr double kLeases = 4;  // in messages, decoded, and waiting
  to->worker_bytes = std::max(to->worker_bytes,
                              static_cast<uint64_t>(kWorkerBytes + open / to->workers * 4 * matrix +
                                                    kLeases * config.train.unit_batches * batch *
                                                        (8 * input.shape.features.per_sample +
                                                         4 * input.shape.labels.per_sample)));
  to->scheduler_bytes = static_cast<uint64_t>(
      kSchedulerBytes + kVectorSlack * DatasetBytes(input.shape.samples + input.shape.test_samples +
                                                        input.shape.held_out_samples,
                                                    input.shape));
}

double EvaluationSeconds(const PlanInput& input, const Rates& rates) {
  double at_once = 0;  // executors that have a core
  for (const PlannedNode& node : input.nodes) {
    at_once += std::min<double>(node.cores, node.servers * ExecutorsOn(node, input.config));
  }
  const TrainConfig& train = input.config.train;
  const double all = static_cast<double>(input.shape.test_samples);
  const double some = std::min<double>(all, train.evaluate_samples);
  const double held_out = static_cast<double>(input.shape.held_out_samples);
  const double evaluated = train.epochs * held_out + (train.epochs - 1) * some + all;
  return evaluated * rates.evaluate_seconds / at_once / input.core_speed;
}

}  // namespace

PlannedTask TaskOf(const Config& config) {
  PlannedTask task = {{"features", std::to_string(config.model.features)},
                      {"labels", std::to_string(config.model.labels)}};
  for (const char* name : {"model.hidden", "model.active", "model.negatives", "model.precision",
                           "train.batch", "train.optimizer"}) {
    const ConfigKey* key = FindConfigKey(name);
    DSLIDE_CHECK(key != nullptr);
    task.emplace_back(name, key->field.format(config));
  }
  return task;
}

PlanEstimate EstimateRun(const PlanInput& input) {
  DSLIDE_CHECK(!input.epochs.empty());
  const Config& config = input.config;
  PlanEstimate to;
  to.servers = ServersOf(input.nodes);
  to.workers = WorkersOf(input.nodes);
  DSLIDE_CHECK(to.servers > 0 && to.workers > 0);
  for (const PlannedNode& node : input.nodes) {
    to.executors += node.servers * ExecutorsOn(node, config);
  }
  const ModelConfig& model = config.model;
  to.parameters = ParameterCount(model);
  to.model_bytes = ModelMemoryBytes(config);
  to.checkpoint_bytes = to.model_bytes;
  to.disk_bytes = to.checkpoint_bytes * (uint64_t{config.checkpoint.keep} + 1);
  const double batch = config.train.batch;
  double epochs = 0, seconds = 0;  // of a batch, times epochs
  for (const EpochRates& part : input.epochs) {
    const ChosenRun chosen = RunWith(input, part.rates);
    const Run& run = chosen.run;
    epochs += part.epochs;
    seconds += part.epochs / run.rate();
    double link = 0, sent = 0, received = 0;
    for (const MessageBytes& bytes : run.bytes()) {
      sent += bytes.sent();
      received += bytes.received();
      link = std::max(link, bytes.sent() + bytes.received());
    }
    to.bytes_sent += part.epochs * sent / batch;
    to.bytes_received += part.epochs * received / batch;
    to.bytes_per_link += part.epochs * link / batch;
    to.server_cpu_us += part.epochs * 1e6 * run.server_seconds() / batch / input.core_speed;
    to.worker_cpu_us += part.epochs * 1e6 * run.worker_seconds() / batch / input.core_speed;
    to.scheduler_cpu_us += part.epochs * 1e6 * run.scheduler_seconds() / batch / input.core_speed;
    to.lease_bytes = run.lease_bytes() / batch;
    to.wire = chosen.precision;
    to.in_flight = static_cast<uint32_t>(run.in_flight());
    const auto [what, busy] = run.Busiest();
    if (busy > to.bottleneck_busy) {
      to.bottleneck = what;
      to.bottleneck_busy = busy;
    }
    AddMemory(input, part.rates, run, &to);
  }
  for (double* sum : {&to.bytes_sent, &to.bytes_received, &to.bytes_per_link, &to.server_cpu_us,
                      &to.worker_cpu_us, &to.scheduler_cpu_us, &seconds}) {
    *sum /= epochs;
  }
  to.samples_per_second = batch / seconds;
  to.seconds =
      static_cast<double>(input.shape.samples) * config.train.epochs / to.samples_per_second +
      EvaluationSeconds(input, input.epochs.front().rates);
  return to;
}

}  // namespace dslide
