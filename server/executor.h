// One shard of a server: the rows, optimiser state and hash tables of some slots, and the batches
// in flight.
//
// An executor is driven by one thread, shares nothing with others, and answers each request with
// the partial reply of its own rows; common/net/combine.h adds the parts up.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/config/config.h"
#include "common/config/step.h"
#include "common/net/messages.h"
#include "server/input_layer.h"
#include "server/output_layer.h"

namespace dslide {

// A batch in flight belongs to the worker life that sent it.
struct BatchKey {
  Incarnation worker;
  BatchId batch;
  auto operator<=>(const BatchKey&) const = default;
};

// Memory guard: more batches in flight than this are refused, whoever sends them.
constexpr size_t kMaxBatchesInFlight = 1024;

// A worker's oldest batch makes room when it has so many, twice the most that
// train.batches_in_flight allows (pushed ones do not count there): it has given that one up.
constexpr size_t kMaxBatchesOfWorker = 128;

constexpr uint32_t kMaxInferenceBatch = 512;  // samples, where train.batch is smaller
constexpr uint32_t kMaxTopK = 10000;

class Executor {
 public:
  // `config` is resolved; `train_samples` fixes the learning-rate schedule. `index` numbers the
  // executors of the cluster, so that each draws its own negatives.
  // `purpose`: an executor for inference keeps no optimiser state and refuses to train.
  Executor(const Config& config, uint64_t train_samples, std::span<const SlotId> slots,
           uint32_t index, Purpose purpose, const Kernels& kernels);

  // Initial weights by the seed, and hash tables over them.
  void Initialise();

  InputLayer& input() { return input_; }
  OutputLayer& output() { return output_; }

  // Answers EmbedRequest, ActiveQuery, GradientPush, EmbedPush, TopKRequest, DropBatches and
  // CommitSteps with the matching reply, or ErrorReply. Checks ids and shapes against the model;
  // anything may come in.
  Body Handle(Incarnation sender, const Body& request);

  bool synchronous() const { return IsSynchronous(config_.train); }
  size_t batches_in_flight() const { return batches_.size(); }

  // The state of its hash tables, in a heartbeat's fields.
  Heartbeat Occupancy() const;

 private:
  // A batch goes through these stages, one request each.
  enum class Stage { kEmbedded, kQueried, kPushed };
  struct Batch {
    Stage stage = Stage::kEmbedded;
    uint32_t samples = 0;
    InputBatch input;
    OutputBatch output;
  };

  Body Embed(Incarnation sender, const EmbedRequest& request);
  void DropUnits(uint64_t batch_number, Matrix* partial) const;
  Body Query(Incarnation sender, const ActiveQuery& request);
  Body Push(Incarnation sender, const GradientPush& request);
  Body PushEmbedding(Incarnation sender, const EmbedPush& request);
  Body TopK(const TopKRequest& request);
  Body Drop(const DropBatches& request);
  Body Commit(const CommitSteps& request);

  // Synchronous training: what a step's batches contribute is held until the step is committed. A
  // batch counts once for each layer, whoever brings it: trained again it gives the same.
  struct HeldBatch {
    bool output = false;
    bool input = false;
    std::vector<float> mean_hidden;  // [H]
  };
  struct HeldStep {
    GradientSums output;
    GradientSums input;
    std::map<BatchId, HeldBatch> batches;
  };
  HeldStep& StepOfBatch(const BatchId& batch);
  Matrix HoldOutput(const GradientPush& request, OutputBatch* batch);  // dL/dh
  void HoldInput(const EmbedPush& request, const InputBatch& batch);
  std::string Missing(const HeldStep& held, const StepExtent& extent) const;
  void Apply(uint64_t step, const HeldStep& held);
  // What a batch's mean gradient counts in the mean over its step.
  float ShareOfStep(const BatchId& batch, uint32_t samples) const;

  Batch* Find(const BatchKey& key, Stage stage);
  size_t OfWorker(Incarnation worker) const;
  bool BatchFits(uint32_t samples) const;
  float LearningRate(uint64_t batch_number) const;

  Config config_;
  uint64_t train_samples_;
  uint64_t negative_seed_;
  Purpose purpose_;
  const Kernels& kernels_;
  InputLayer input_;
  OutputLayer output_;
  std::map<BatchKey, std::unique_ptr<Batch>> batches_;
  std::vector<std::unique_ptr<Batch>> spare_;  // finished ones, their buffers are used again
  std::optional<uint64_t> committed_;          // steps; none before the first CommitSteps
  std::map<uint64_t, std::unique_ptr<HeldStep>> held_;  // by step
  std::vector<std::unique_ptr<HeldStep>> spare_steps_;
};

}  // namespace dslide
