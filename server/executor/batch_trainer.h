// Takes workers' batches through an executor's rows: forward pass, gradients, updates.
//
// Asynchronous training updates the rows at once. Synchronous training holds what a batch
// contributes until the step is committed (StepSums).
//
// A server with rows of one layer only is alone with that layer's requests (EmbedRequest.alone,
// ActiveQuery.alone). Its slots count as having taken the other part of a batch with their own one.
//
// A batch counts once: rows that have taken it already (AppliedBatches) are computed with, but not
// updated, when it comes again.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/config/schedule.h"
#include "common/run/step.h"
#include "common/wire/messages.h"
#include "server/executor/batches/applied_batches.h"
#include "server/executor/batches/batch_table.h"
#include "server/executor/batches/step_sums.h"
#include "server/executor/slots/work_counter.h"
#include "server/model/input_layer.h"
#include "server/model/output_layer.h"

namespace dslide {

class BatchTrainer {
 public:
  // The executor's rows and their accounts. All must outlive the trainer.
  struct Rows {
    InputLayer& input;
    OutputLayer& output;
    AppliedBatches& applied;
    WorkCounter& counter;
  };
  // `config` must outlive the trainer. `updated` is called after the updates of each batch.
  BatchTrainer(const Config& config, uint64_t train_samples, const Kernels& kernels, Rows rows,
               std::function<void()> updated);

  // The stages of a batch, in this order. Each returns the matching reply or an ErrorReply.
  // REQUIRES of Embed(), of PushEmbedding()'s `next` and of a Query() that is alone that sizes fit
  // the run, and of the former two that feature ids and shapes fit the model; the others check
  // them.
  Body Embed(Incarnation sender, const EmbedRequest& request);
  Body Query(Incarnation sender, const ActiveQuery& request);
  Body Push(Incarnation sender, const GradientPush& request);
  // Has rows read that a Query() which waits will need.
  void ReadAhead(const ActiveQuery& request);
  // Acknowledges without the batch that follows (`request.next`).
  Body PushEmbedding(Incarnation sender, const EmbedPush& request);

  // Applies the steps before request.committed, in order. The first commit tells where the run
  // begins.
  Body Commit(const CommitSteps& request);

  void DropWorker(Incarnation worker) { batches_.DropWorker(worker); }
  // Drops all batches in flight and all steps that are not committed. Call when slots come or go.
  void DropWork();

  std::optional<uint64_t> committed() const { return steps_.committed(); }
  void SetCommitted(std::optional<uint64_t> committed) { steps_.SetCommitted(committed); }
  size_t batches_in_flight() const { return batches_.size(); }
  uint64_t BatchBytes() const { return batches_.MemoryBytes(); }
  void set_most_batch_bytes(uint64_t bytes) { batches_.set_most_bytes(bytes); }
  void CheckInvariants() const;

 private:
  bool synchronous() const { return IsSynchronous(config_.train); }
  uint64_t NumberOf(const BatchId& batch) const {
    return BatchNumber(batch, config_.train, train_samples_);
  }
  Draws DrawsOf(uint64_t batch_number) const;
  float LearningRate(uint64_t batch_number) const;
  uint64_t EpochOf(uint64_t batch_number) const {
    return batch_number / BatchesPerEpoch(config_.train, train_samples_);
  }
  bool Learns(uint64_t batch_number) const { return LearnsIn(config_, EpochOf(batch_number)); }
  PartialSum Gradient(uint64_t number, const std::vector<float>& log_normaliser, OutputBatch* batch,
                      const RowGradientSink& take);
  // Applies to a neuron what Gradient() gave of the batch or of a step that begins with it.
  RowGradientSink NeuronUpdate(uint64_t number, uint64_t samples);

  bool IsCommitted(const BatchId& batch) const;
  std::string WhyNotOpen(const BatchId& batch, uint32_t samples) const;
  std::string WhyNotAsked(const ActiveQuery& request, uint32_t samples) const;
  std::string WhyTooManyLabels(const SparseRows& labels, uint32_t samples) const;
  OpenBatch* FindForPush(const BatchKey& key);
  void DropUnits(const BatchId& batch, PartialSum* partial) const;
  PartialSum ApplyOutput(const GradientPush& request, OutputBatch* batch);
  PartialSum HoldOutput(const GradientPush& request, OutputBatch* batch);
  void ApplyInput(const EmbedPush& request, const InputBatch& batch) noexcept;
  void HoldInput(const EmbedPush& request, const InputBatch& batch);
  void TakeOtherPart(const BatchId& batch, Part part);
  void Apply(const StepSums::Step& step, const StepExtent& extent);

  const Config& config_;
  const uint64_t train_samples_;
  const Kernels& kernels_;
  const Rows rows_;
  const std::function<void()> updated_;
  BatchTable batches_;
  StepSums steps_;
};

}  // namespace dslide
