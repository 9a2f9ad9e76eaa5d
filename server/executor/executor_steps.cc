// Synchronous training: what batches contribute to a step is held until the step is committed.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/failpoint.h"
#include "server/executor/executor.h"

namespace dslide {
namespace {

ErrorReply Refuse(std::string text) { return {ErrorCode::kRefused, std::move(text)}; }

}  // namespace

Executor::HeldStep& Executor::StepOfBatch(const BatchId& batch) {
  std::unique_ptr<HeldStep>& held = held_[StepOf(batch, config_.train, train_samples_)];
  if (held == nullptr && !spare_steps_.empty()) {
    held = std::move(spare_steps_.back());
    spare_steps_.pop_back();
  } else if (held == nullptr) {
    const auto sums = [](const Layer& layer) {
      return GradientSums(layer.map().rows(), layer.dim());
    };
    held.reset(new HeldStep{sums(output_.layer()), sums(input_.layer()), {}});
  }
  return *held;
}

float Executor::ShareOfStep(const BatchId& batch, uint32_t samples) const {
  const uint64_t step = StepOf(batch, config_.train, train_samples_);
  const StepExtent extent = ExtentOfStep(step, config_.train, train_samples_);
  return static_cast<float>(static_cast<double>(samples) / static_cast<double>(extent.samples));
}

Matrix Executor::HoldOutput(const GradientPush& request, OutputBatch* batch) {
  HeldStep& step = StepOfBatch(request.batch);
  HeldBatch& held = step.batches[request.batch];
  const float share = ShareOfStep(request.batch, batch->hidden.rows);
  Matrix partial = output_.Gradient(batch, request.log_normaliser,
                                    [&](uint32_t row, const float* g, float bias) {
                                      if (!held.output) step.output.Add(row, share, g, bias);
                                    });
  if (!held.output) held.mean_hidden = ColumnMeans(batch->hidden, kernels_);
  held.output = true;
  return partial;
}

void Executor::HoldInput(const EmbedPush& request, const InputBatch& batch) {
  HeldStep& step = StepOfBatch(request.batch);
  HeldBatch& held = step.batches[request.batch];
  if (held.input) return;
  const float share = ShareOfStep(request.batch, request.gradient.rows);
  input_.Gradient(batch, request.gradient, [&](uint32_t row, const float* g, float) {
    step.input.Add(row, share, g, 0);
    CountInput(row, false);
  });
  held.input = true;
}

// Applies, in order, the steps up to request.committed. The first one tells where the run begins.
Body Executor::Commit(const CommitSteps& request) {
  if (!committed_) committed_ = request.committed;
  while (*committed_ < request.committed) {
    const uint64_t step = *committed_;
    const auto found = held_.find(step);
    const std::string missing =
        found == held_.end()
            ? "all batches"
            : Missing(*found->second, ExtentOfStep(step, config_.train, train_samples_));
    if (!missing.empty()) {
      return Refuse(fmt::format("step {} cannot be committed: {} missing", step, missing));
    }
    Apply(step, *found->second);
    found->second->output.Clear();
    found->second->input.Clear();
    found->second->batches.clear();
    spare_steps_.push_back(std::move(found->second));
    held_.erase(found);
    ++*committed_;
  }
  // Others have done these meanwhile, or the steps could not be complete.
  std::erase_if(batches_, [&](const auto& entry) {
    return StepOf(entry.first.batch, config_.train, train_samples_) < *committed_;
  });
  return StepsCommitted{*committed_};
}

// Which of a step's batches are not wholly here; empty if none.
std::string Executor::Missing(const HeldStep& held, const StepExtent& extent) const {
  size_t whole = 0;
  for (const auto& [id, batch] : held.batches) whole += batch.output && batch.input;
  return whole == extent.batches
             ? ""
             : fmt::format("{} of {} batches", extent.batches - whole, extent.batches);
}

void Executor::Apply(uint64_t step, const HeldStep& held) {
  PassFailpoint(Failpoint::kServerBeforeApply);
  const float rate = LearningRate(ExtentOfStep(step, config_.train, train_samples_).first_batch);
  held.input.ForEach([&](uint32_t row, const float* g, float) {
    input_.Update(row, rate, g);
    CountUpdate(input_.layer(), row);
  });
  held.output.ForEach([&](uint32_t row, const float* g, float bias) {
    output_.Update(row, rate, g, bias);
    CountUpdate(output_.layer(), row);
  });
  for (const auto& [id, batch] : held.batches) {
    for (const Part part : {Part::kOutput, Part::kInput}) {
      if (applied_.Has(part, NumberOf(id)) != AppliedBatches::Share::kAll) {
        applied_.Add(part, NumberOf(id));
      }
    }
    output_.FollowActivations(batch.mean_hidden);
    FollowUpdates();
  }
  PassFailpoint(Failpoint::kServerAfterApply);
}

}  // namespace dslide
