#include "tools/dslide/plan/calibration.h"
#include "common/config/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "common/base/process.h"
#include "common/math/kernels.h"
#include "common/net/socket.h"
#include "common/run/combine.h"
#include "scheduler/balance/model_size.h"
#include "tools/dslide/bench/engine_bench.h"

namespace dslide {
namespace {

constexpr uint32_t kSeveralExecutors = 4;

// The processes of a cluster drive one another's data out of the caches, and their threads wake one
// another: what runs took / what is measured in this process alone (tools/bench/RESULTS.md,
// "Plans").
constexpr double kExecutorsInCluster = 1.12;
constexpr double kOthersInCluster = 1.6;  // messages, worker, network threads

// CPU seconds of this thread that one of `times` calls takes.
template <typename Work>
double SecondsOf(int times, const Work& work) {
  work();  // warm
  const double begin = ThreadCpuSeconds();
  for (int i = 0; i < times; ++i) work();
  return (ThreadCpuSeconds() - begin) / times;
}

template <typename T>
std::vector<const T*> AllOf(const std::vector<Body>& bodies) {
  std::vector<const T*> found;
  for (const Body& body : bodies) {
    if (const T* one = std::get_if<T>(&body)) found.push_back(one);
  }
  return found;
}

// Each body once, so that none is in a cache by the one before.
template <typename T>
MessageCost CostOf(const std::vector<const T*>& bodies, WirePrecision precision) {
  if (bodies.empty()) return {};
  std::vector<Message> messages;
  for (const T* body : bodies) messages.push_back({{}, *body});
  std::vector<Bytes> encoded;
  double begin = ThreadCpuSeconds();
  for (const Message& message : messages) encoded.push_back(Encode(message, precision));
  const double encode = ThreadCpuSeconds() - begin;
  messages.clear();
  begin = ThreadCpuSeconds();
  for (const Bytes& bytes : encoded) {
    Result<Message> message = Decode(bytes);
    if (message.ok()) messages.push_back(*std::move(message));
  }
  const double decode = ThreadCpuSeconds() - begin;
  const auto count = static_cast<double>(bodies.size());
  return {encode / count, decode / count};
}

template <typename T>
T Received(const T& body, WirePrecision precision) {
  Result<Message> message = Decode(Encode({{}, body}, precision));
  DSLIDE_CHECK(message.ok());
  return std::get<T>(std::move(message->body));
}

double NonzeroShare(const std::vector<float>& data) {
  const auto zeros = static_cast<double>(std::ranges::count(data, 0.0f));
  return 1 - zeros / std::max<double>(1, static_cast<double>(data.size()));
}

// `matrix` gives the floats of a body.
template <typename T, typename Data>
Activity::Share ShareOf(const std::vector<const T*>& bodies, const Data& matrix) {
  Activity::Share share{0, 0};
  for (const T* body : bodies) {
    share.wide += NonzeroShare(matrix(Received(*body, WirePrecision::kBf16)));
    share.int8 += NonzeroShare(matrix(Received(*body, WirePrecision::kInt8)));
  }
  const double count = std::max<double>(1, static_cast<double>(bodies.size()));
  return {share.wide / count, share.int8 / count};
}

Activity ActivityOf(const std::vector<Body>& bodies) {
  Activity activity;
  activity.pre_activations = ShareOf(AllOf<EmbedReply>(bodies), [](const EmbedReply& reply) {
    return InFloats(reply.partial).data;
  });
  activity.hidden = ShareOf(AllOf<ActiveQuery>(bodies),
                            [](const ActiveQuery& query) { return query.hidden.data; });
  activity.hidden_gradient = ShareOf(AllOf<GradientReply>(bodies), [](const GradientReply& reply) {
    return InFloats(reply.partial).data;
  });
  activity.gradient =
      ShareOf(AllOf<EmbedPush>(bodies), [](const EmbedPush& push) { return push.gradient.data; });
  return activity;
}

// To copy a matrix, and to add it to another.
double SumSeconds(const Config& config) {
  const Matrix part(config.train.batch, config.model.hidden);
  PartialSum sum = part;
  return SecondsOf(5, [&] { AddPartial(part, &sum); });
}

void MeasureMessages(const std::vector<Body>& bodies, const Config& config,
                     const std::vector<LeaseBatch>& batches, Rates* rates) {
  const WirePrecision precision = FixedPrecision(config.cluster.wire);
  rates->activity = ActivityOf(bodies);
  rates->active_query = CostOf(AllOf<ActiveQuery>(bodies), precision);
  rates->gradient_reply = CostOf(AllOf<GradientReply>(bodies), precision);
  rates->embed_reply = CostOf(AllOf<EmbedReply>(bodies), precision);
  const MessageCost push = CostOf(AllOf<EmbedPush>(bodies), precision);
  const MessageCost first = CostOf(AllOf<EmbedRequest>(bodies), precision);
  rates->embed_push = {push.encode + first.encode, push.decode + first.decode};
  const GradientPush small{{}, std::vector<float>(config.train.batch, 1.5f)};
  rates->statistics = CostOf(std::vector<const GradientPush*>(16, &small), precision);
  std::vector<LeaseGrant> grants(std::min<size_t>(batches.size(), 16));
  std::vector<const LeaseGrant*> leases;
  for (size_t i = 0; i < grants.size(); ++i) {
    grants[i].batches = {batches[i]};
    leases.push_back(&grants[i]);
  }
  rates->lease = CostOf(leases, precision);
  rates->sum_seconds = SumSeconds(config);
}

// CPU seconds of this process to send `count` messages of `bytes` from one socket to another, each
// when the one before has come.
Result<double> SocketSeconds(size_t bytes, int count) {
  NetContext context;
  RouterLimits limits;
  limits.message_bytes = kMaxMessageBytes;
  limits.connection_bytes = std::max<uint64_t>(limits.connection_bytes, 4 * bytes);
  Result<RouterSocket> server = RouterSocket::Bind(context, "tcp://127.0.0.1:*", {}, limits);
  DSLIDE_RETURN_IF_ERROR(server);
  Result<DealerSocket> client = DealerSocket::Connect(context, server->address());
  DSLIDE_RETURN_IF_ERROR(client);
  Poller poller;
  poller.Add(*server);
  constexpr int kWaitMs = 5000;
  const std::vector<Bytes> contents(32, Bytes(bytes, 1));  // more than a cache holds
  double begin = 0;
  for (int i = 0; i <= count; ++i) {
    if (i == 1) begin = UsageOfThisProcess().cpu_seconds;  // the first one dials
    if (!client->Send(contents[static_cast<size_t>(i) % contents.size()]))
      return Failed("calibration: a message could not be sent");
    poller.Wait(kWaitMs);
    if (!server->Receive()) return Failed("calibration: a message on loopback did not arrive");
  }
  return (UsageOfThisProcess().cpu_seconds - begin) / count;
}

Status MeasureSockets(Rates* rates) {
  constexpr size_t kSmall = 100, kLarge = 400'000;
  const Result<double> small = SocketSeconds(kSmall, 2000);
  DSLIDE_RETURN_IF_ERROR(small);
  const Result<double> large = SocketSeconds(kLarge, 300);
  DSLIDE_RETURN_IF_ERROR(large);
  rates->send_seconds = *small;
  rates->byte_seconds = std::max(0.0, *large - *small) / kLarge;
  return {};
}

// So that the model fits into `most_bytes`: fewer neurons and input rows, in proportion.
EngineBenchOptions OptionsFor(const Calibration& calibration, uint32_t epoch) {
  EngineBenchOptions options;
  options.config = calibration.config;
  options.seconds = calibration.seconds;
  options.epoch = epoch;
  options.batches = calibration.batches;
  ModelConfig& model = options.config.model;
  const auto bytes = static_cast<double>(ModelMemoryBytes(calibration.config));
  const double share = static_cast<double>(calibration.most_bytes) / bytes;
  if (share < 1) {
    const uint32_t slots = options.config.cluster.slots;
    const auto fewer = [&](uint32_t n) {
      return std::max(std::min(n, 4 * slots), static_cast<uint32_t>(n * share));
    };
    model.features = fewer(model.features);
    model.labels = fewer(model.labels);
    for (uint32_t* most : {&model.candidates, &model.negatives}) {
      *most = std::min(*most, model.labels);
    }
    for (LeaseBatch& batch : options.batches) {
      for (uint32_t& id : batch.features.ids) id %= model.features;
      for (uint32_t& id : batch.labels.ids) id %= model.labels;
    }
  }
  return options;
}

// As long a run as there is time for: with a learning rate that rises and falls, and draws that get
// fewer, as in the whole one.
void Shorten(const Calibration& calibration, EngineBenchOptions* options) {
  EngineBenchOptions probe = *options;
  probe.seconds = calibration.seconds / 4;
  const double rate = MeasureEngineCosts(probe).batches_per_second;
  TrainConfig& train = options->config.train;
  const double whole = std::max(1.0, calibration.run_batches);
  constexpr double kLeastBatches = 40;
  const double batches = std::min(std::max(kLeastBatches, rate * calibration.seconds), whole);
  options->samples = static_cast<uint64_t>(std::max(1.0, std::floor(batches))) * train.batch;
  train.warmup_batches =
      static_cast<uint32_t>(std::max(1.0, train.warmup_batches * batches / whole));
}

Rates RatesOf(const Calibration& calibration, uint32_t epoch) {
  EngineBenchOptions options = OptionsFor(calibration, epoch);
  options.threads = options.config.cluster.executors = 1;
  if (calibration.config.model.neurons != Neurons::kCentroids) {
    options.config.train.epochs = 1;
    Shorten(calibration, &options);
  }
  const EngineCosts one = MeasureEngineCosts(options);
  options.threads = options.config.cluster.executors = kSeveralExecutors;
  const EngineCosts several = MeasureEngineCosts(options);
  const auto told_apart = [](double alone, double together) {
    const double fixed = std::clamp((together - alone) / (kSeveralExecutors - 1), 0.0, 0.8 * alone);
    return LayerCost{fixed, alone - fixed};
  };
  Rates rates;
  rates.machine = ThisMachineText();
  rates.task = TaskOf(calibration.config);
  rates.neurons = told_apart(one.neurons_seconds, several.neurons_seconds);
  rates.input = told_apart(one.input_seconds, several.input_seconds);
  rates.worker_seconds = one.worker_seconds;
  rates.gather_seconds =
      std::max(0.0, several.gather_seconds - one.gather_seconds) / (kSeveralExecutors - 1);
  rates.rows_per_batch = one.rows_per_batch;
  const double label_share =
      1.0 * calibration.config.model.labels / std::max(1u, options.config.model.labels);
  if (calibration.config.model.active == ActiveSet::kAll) {
    for (double* figure : {&rates.neurons.fixed, &rates.neurons.shared, &rates.rows_per_batch}) {
      *figure *= label_share;
    }
  }
  rates.epochs_trained = static_cast<double>(options.samples) / calibration.samples;
  rates.evaluate_seconds = one.evaluate_seconds * label_share;
  MeasureMessages(one.messages, options.config, options.batches, &rates);
  for (double* seconds : {&rates.neurons.fixed, &rates.neurons.shared, &rates.input.fixed,
                          &rates.input.shared, &rates.evaluate_seconds}) {
    *seconds *= kExecutorsInCluster;
  }
  for (double* seconds : {&rates.worker_seconds, &rates.sum_seconds, &rates.gather_seconds}) {
    *seconds *= kOthersInCluster;
  }
  for (MessageCost* cost : {&rates.embed_push, &rates.embed_reply, &rates.active_query,
                            &rates.gradient_reply, &rates.statistics, &rates.lease}) {
    cost->encode *= kOthersInCluster;
    cost->decode *= kOthersInCluster;
  }
  return rates;
}

}  // namespace

std::string ThisMachineText() {
  const uint32_t cores = CoresOfThisMachine();
  return fmt::format("{} core{}, {} kernels", cores, cores == 1 ? "" : "s", BestKernels().name);
}

Result<std::vector<EpochRates>> Calibrate(const Calibration& calibration) {
  const Config& config = calibration.config;
  std::vector<EpochRates> epochs;
  // One epoch of each kind near the middle of the run stands for all of its kind.
  double kinds[2] = {0, 0};
  uint32_t nearest[2] = {0, 0};
  for (uint32_t epoch = 0; epoch < config.train.epochs; ++epoch) {
    const bool forms = FormsCentroids(config, epoch);
    ++kinds[forms];
    if (epoch <= config.train.epochs / 2) nearest[forms] = epoch;
  }
  Rates sockets;
  DSLIDE_RETURN_IF_ERROR(MeasureSockets(&sockets));
  for (const bool forms : {false, true}) {
    if (kinds[forms] == 0) continue;
    const bool centroids = config.model.neurons == Neurons::kCentroids;
    EpochRates part{kinds[forms], RatesOf(calibration, centroids ? nearest[forms] : 0)};
    part.rates.send_seconds = sockets.send_seconds * kOthersInCluster;
    part.rates.byte_seconds = sockets.byte_seconds * kOthersInCluster;
    epochs.push_back(std::move(part));
  }
  return epochs;
}

}  // namespace dslide
