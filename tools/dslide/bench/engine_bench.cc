#include "tools/dslide/bench/engine_bench.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <stdexcept>
#include <vector>

#include "common/base/process.h"
#include "common/base/random.h"
#include "common/math/median.h"
#include "common/run/slot_plan.h"
#include "server/executor/executor_pool.h"
#include "server/executor/request_round.h"
#include "worker/batch_flight.h"

namespace dslide {
namespace {

constexpr Incarnation kWorker{1};

// Draws rank r of [0, n) with probability about proportional to 1 / (r + 1), spread over the ids.
uint32_t DrawZipf(uint32_t n, Random* random) {
  const double rank = std::exp(random->Uniform() * std::log(static_cast<double>(n) + 1.0)) - 1.0;
  constexpr uint64_t kSpread = 0x9e3779b1;  // odd and prime: coprime to any n below it
  return static_cast<uint32_t>(static_cast<uint64_t>(rank) * kSpread % n);
}

void AddSample(uint32_t ids, uint32_t of, bool values, Random* random, SparseRows* out) {
  std::vector<uint32_t> drawn;
  while (drawn.size() < std::min(ids, of)) {
    const uint32_t id = DrawZipf(of, random);
    if (std::find(drawn.begin(), drawn.end(), id) == drawn.end()) drawn.push_back(id);
  }
  std::sort(drawn.begin(), drawn.end());
  for (const uint32_t id : drawn) {
    out->ids.push_back(id);
    if (values) out->values.push_back(static_cast<float>(0.05 + 0.2 * random->Uniform()));
  }
  out->EndRow();
}

}  // namespace

LeaseBatch GenerateBatch(const EngineBenchOptions& options, uint32_t number) {
  Random random(SubSeed(options.config.common.seed, number));
  LeaseBatch batch;
  for (uint32_t i = 0; i < options.config.train.batch; ++i) {
    AddSample(options.features_per_sample, options.features, true, &random, &batch.features);
    AddSample(options.labels_per_sample, options.labels, false, &random, &batch.labels);
  }
  return batch;
}

namespace {

class Engine {
 public:
  explicit Engine(const EngineBenchOptions& options)
      : config_(options.config),
        plan_(EqualPlan(1, config_.cluster.slots, {{"", ""}})),
        next_batch_(kSamples / config_.train.batch / 2) {
    for (uint32_t b = 0; b < kGeneratedBatches; ++b) {
      batches_.push_back(GenerateBatch(options, b));
    }
    const std::vector<std::vector<SlotId>> split =
        DivideSlots(AllSlots(config_.cluster), config_.cluster, options.threads);
    executors_.resize(options.threads);
    pool_ = std::make_unique<ExecutorPool>(options.threads, [&, split](uint32_t i) {
      auto executor = std::make_unique<Executor>(config_, kSamples, split[i], Purpose::kTraining,
                                                 BestKernels());
      executor->Initialise();
      executors_[i] = executor.get();
      return executor;
    });
    OnAll([](Executor&) {});  // returns once all executors exist
  }

  // Trains for `seconds`. Returns the number of batches that ended.
  uint64_t Train(double seconds) {
    const auto begin = std::chrono::steady_clock::now();
    const auto left = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() <
             seconds;
    };
    uint64_t done = 0;
    while (left() || !flights_.empty()) {
      while (left() && flights_.size() < kInFlight) Launch();
      pollfd ready{pool_->fd(), POLLIN, 0};
      (void)poll(&ready, 1, -1);
      while (auto outcome = pool_->Collect()) done += Take(std::move(*outcome));
    }
    return done;
  }

  // The executors; idle between calls.
  const std::vector<Executor*>& executors() const { return executors_; }
  // Runs work(executor) in all executors' threads. Returns the seconds it took.
  template <typename Work>
  double OnAll(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<JobReply> parts = pool_->RunOnAll([&](Executor& executor) -> JobReply {
      work(executor);
      return Done{};
    });
    for (const JobReply& part : parts) ThrowIfError(part);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  // So many that learning rate and draws stay constant, as they are in the middle of a run.
  static constexpr uint64_t kSamples = uint64_t{1} << 32;
  static constexpr size_t kInFlight = 3;

  struct Flight {
    BatchFlight batch;
    RequestRound round;
    std::vector<JobReply> parts;
    size_t missing = 0;
  };

  // Most likely out of memory. RunExecutable() prints the text.
  static void ThrowIfError(const JobReply& part) {
    if (const auto* error = std::get_if<Error>(&part)) throw std::runtime_error(error->message);
    const auto* body = std::get_if<Body>(&part);
    const auto* refused = body == nullptr ? nullptr : std::get_if<ErrorReply>(body);
    if (refused != nullptr) throw std::runtime_error(refused->text);
  }

  void Launch() {
    LeaseGrant lease;
    lease.unit = static_cast<uint32_t>(next_batch_ / config_.train.unit_batches);
    LeaseBatch batch = batches_[next_batch_ % batches_.size()];
    batch.index = static_cast<uint32_t>(next_batch_ % config_.train.unit_batches);
    const uint64_t id = ++next_batch_;
    BatchFlight flight(config_, plan_, lease, std::move(batch), next_batch_);
    Body request = flight.RequestFor(0);
    RequestRound first(std::move(request));
    const auto added = flights_.emplace(id, Flight{std::move(flight), std::move(first), {}});
    Submit(id, &added.first->second);
  }

  void Submit(uint64_t id, Flight* flight) {
    flight->parts.resize(pool_->size());
    flight->missing = pool_->size();
    pool_->Submit(id, RequestJob{kWorker, flight->round.request()});
  }

  // True if the outcome ended a batch.
  bool Take(ExecutorPool::Outcome outcome) {
    Flight& flight = flights_.at(outcome.job_id);
    ThrowIfError(outcome.part);
    flight.parts[outcome.executor] = std::move(outcome.part);
    if (--flight.missing > 0) return false;
    const auto progress = flight.round.Gather(BodiesOf(std::move(flight.parts)));
    if (progress == RequestRound::Progress::kOutOfRange)
      throw std::runtime_error("training diverged");
    if (progress == RequestRound::Progress::kReplied && TakeReply(&flight)) {
      flights_.erase(outcome.job_id);
      return true;
    }
    Submit(outcome.job_id, &flight);
    return false;
  }

  // True if the reply ended the batch.
  bool TakeReply(Flight* flight) {
    Body reply = flight->round.TakeReply();
    const Result<bool> taken = flight->batch.Take(0, std::move(reply));
    DSLIDE_CHECK(taken.ok());
    const bool done = flight->batch.done();
    if (!done) {
      Body next = flight->batch.RequestFor(0);
      flight->round = RequestRound(std::move(next));
    }
    return done;
  }

  const Config& config_;
  Plan plan_;
  std::vector<LeaseBatch> batches_;
  std::vector<Executor*> executors_;
  std::unique_ptr<ExecutorPool> pool_;
  std::map<uint64_t, Flight> flights_;
  uint64_t next_batch_;  // from the epoch's middle on
};

// Sums over the executors.
struct Snapshot {
  std::array<double, kPhases> seconds{};
  double output_rows = 0;
  double products = 0;
  double input_rows = 0;
};
Snapshot Observe(const Engine& engine) {
  Snapshot sum;
  for (Executor* executor : engine.executors()) {
    for (size_t p = 0; p < kPhases; ++p) {
      sum.seconds[p] +=
          executor->output().stats().seconds()[p] + executor->input().stats().seconds()[p];
    }
    sum.output_rows += static_cast<double>(executor->output().stats().rows());
    sum.products += static_cast<double>(executor->output().stats().products() +
                                        executor->input().stats().products());
    sum.input_rows += static_cast<double>(executor->input().stats().rows());
  }
  return sum;
}

EngineBenchResult Measure(const EngineBenchOptions& options, Engine* engine) {
  const Config& config = options.config;
  EngineBenchResult result;
  Layer& output = engine->executors()[0]->output().layer();
  result.roofline =
      MeasureRoofline(options.threads, options.labels, static_cast<uint32_t>(output.WeightBytes()),
                      config.model.products);
  const Snapshot before = Observe(*engine);
  const auto begin = std::chrono::steady_clock::now();
  const auto batches = static_cast<double>(engine->Train(options.seconds));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Snapshot after = Observe(*engine);
  const double samples = batches * config.train.batch;
  result.samples_per_second = samples / seconds;
  result.rows_per_batch = (after.output_rows - before.output_rows) / batches;
  result.input_rows_per_batch = (after.input_rows - before.input_rows) / batches;
  // Read by the forward pass; read and written by the backward pass with the optimiser's state.
  const auto row_bytes =
      static_cast<double>(output.WeightBytes() + 2 * (output.WeightBytes() + output.StateBytes()));
  result.bytes_per_sample =
      row_bytes * (result.rows_per_batch + result.input_rows_per_batch) / config.train.batch;
  result.operations_per_sample =
      2.0 * config.model.hidden * (after.products - before.products) / samples;
  const double least_seconds =
      std::max(result.bytes_per_sample / result.roofline.random_row_bandwidth,
               result.operations_per_sample / result.roofline.matrix_rate);
  result.roofline_share = least_seconds * result.samples_per_second;
  for (size_t p = 0; p < kPhases; ++p) {
    result.phase_seconds[p] = (after.seconds[p] - before.seconds[p]) / batches * 1000;
  }
  for (Executor* executor : engine->executors()) {
    result.parameter_bytes += static_cast<double>(executor->output().layer().MemoryBytes() +
                                                  executor->input().layer().MemoryBytes());
  }
  return result;
}

// Marks all neurons as changed and trains on until every bucket is up to date.
void MeasureRehash(Engine* engine, EngineBenchResult* result) {
  const uint32_t lag = engine->executors()[0]->output().index()->tables().lag_batches();
  const Snapshot before = Observe(*engine);
  engine->OnAll([](Executor& executor) { executor.output().index()->tables().TouchAll(); });
  for (uint64_t batches = 0; batches < lag;) batches += engine->Train(0.05);
  const size_t rehash = static_cast<size_t>(Phase::kRehash);
  result->background_rehash_seconds = Observe(*engine).seconds[rehash] - before.seconds[rehash];
  uint64_t bytes = 0;
  for (Executor* executor : engine->executors()) {
    result->longest_rehash_step =
        std::max(result->longest_rehash_step, executor->output().stats().longest_rehash());
    bytes += executor->output().index()->MemoryBytes();
  }
  result->rehash_seconds = engine->OnAll([](Executor& executor) {
    executor.output().index()->tables().TouchAll();
    executor.output().index()->tables().CatchUp();
  });
  result->table_bytes_per_neuron = static_cast<double>(bytes);
}

}  // namespace

EngineBenchResult RunEngineBench(const EngineBenchOptions& given) {
  EngineBenchOptions options = given;
  options.config.cluster.executors = options.threads;
  options.config.train.epochs = 1;
  ResolveConfig(options.features, options.labels, &options.config);
  Engine engine(options);
  (void)engine.Train(options.seconds / 2);  // caches, page tables, the first moments
  std::vector<EngineBenchResult> runs;
  for (uint32_t r = 0; r < options.repeats; ++r) runs.push_back(Measure(options, &engine));
  EngineBenchResult median = runs.back();
  const auto of = [&](auto&& field) {
    std::vector<double> values;
    for (EngineBenchResult& run : runs) values.push_back(field(run));
    field(median) = Median(std::move(values));
  };
  of([](EngineBenchResult& r) -> double& { return r.samples_per_second; });
  of([](EngineBenchResult& r) -> double& { return r.bytes_per_sample; });
  of([](EngineBenchResult& r) -> double& { return r.operations_per_sample; });
  of([](EngineBenchResult& r) -> double& { return r.roofline.random_row_bandwidth; });
  of([](EngineBenchResult& r) -> double& { return r.roofline.matrix_rate; });
  of([](EngineBenchResult& r) -> double& { return r.roofline_share; });
  of([](EngineBenchResult& r) -> double& { return r.rows_per_batch; });
  of([](EngineBenchResult& r) -> double& { return r.input_rows_per_batch; });
  for (size_t p = 0; p < kPhases; ++p) {
    of([p](EngineBenchResult& r) -> double& { return r.phase_seconds[p]; });
  }
  if (HasNeuronIndex(options.config.model)) {
    MeasureRehash(&engine, &median);
    median.table_bytes_per_neuron /= options.labels;
  }
  return median;
}

RankingBenchResult RunRankingBench(const EngineBenchOptions& given, uint32_t samples) {
  EngineBenchOptions options = given;
  ResolveConfig(options.features, options.labels, &options.config);
  Engine engine(options);
  (void)engine.Train(options.seconds);
  Random random(options.config.common.seed);
  TopKRequest request;
  request.k = 5;
  request.hidden = Matrix(kMaxInferenceBatch, OutputWidth(options.config.model));
  for (float& h : request.hidden.data) h = static_cast<float>(std::max(0.0, random.Normal()));
  RankingBenchResult result;
  const uint32_t batches = (samples + kMaxInferenceBatch - 1) / kMaxInferenceBatch;
  result.samples = batches * kMaxInferenceBatch;
  const auto rank_all = [&](Executor& executor) {
    for (uint32_t b = 0; b < batches; ++b) (void)executor.Handle(kWorker, Body(request));
  };
  result.exact_seconds = engine.OnAll(rank_all);
  request.search = Search::kLsh;
  result.lsh_seconds = engine.OnAll(rank_all);
  return result;
}

}  // namespace dslide
