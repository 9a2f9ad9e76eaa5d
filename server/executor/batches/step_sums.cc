#include "server/executor/batches/step_sums.h"

#include <fmt/core.h>

#include <utility>

#include "common/base/check.h"
#include "common/run/step.h"

namespace dslide {
namespace {

// Which of a step's batches are not wholly there; empty if none.
std::string Missing(const StepSums::Step& step, uint64_t batches) {
  uint64_t whole = 0;
  for (const auto& [id, batch] : step.batches) whole += batch.output && batch.input;
  return whole == batches ? "" : fmt::format("{} of {} batches", batches - whole, batches);
}

}  // namespace

StepSums::StepSums(const TrainConfig& train, uint64_t train_samples, const Layer& output,
                   const Layer& input)
    : train_(train), train_samples_(train_samples), output_(output), input_(input) {}

uint64_t StepSums::NumberOfStep(const BatchId& batch) const {
  return dslide::StepOf(batch, train_, train_samples_);
}

std::string StepSums::WhyNotOpen(const BatchId& batch) const {
  const uint64_t step = NumberOfStep(batch);
  const uint64_t committed = committed_.value_or(0);
  const auto staleness = static_cast<uint64_t>(train_.staleness);
  if (committed_ && step >= committed && step <= committed + staleness) return "";
  return fmt::format("step {} is not open; committed steps: {}", step, committed);
}

StepSums::Step& StepSums::StepOf(const BatchId& batch) {
  std::unique_ptr<Step>& held = held_[NumberOfStep(batch)];
  if (held == nullptr && !spare_.empty()) {
    held = std::move(spare_.back());
    spare_.pop_back();
  } else if (held == nullptr) {
    const auto sums = [](const Layer& layer) {
      return GradientSums(layer.map().rows(), layer.dim());
    };
    held.reset(new Step{sums(output_), sums(input_), {}});
  }
  return *held;
}

float StepSums::ShareOfStep(const BatchId& batch, uint32_t samples) const {
  const StepExtent extent = ExtentOfStep(NumberOfStep(batch), train_, train_samples_);
  return static_cast<float>(static_cast<double>(samples) / static_cast<double>(extent.samples));
}

Result<const StepSums::Step*> StepSums::Next() const {
  const auto found = held_.find(*committed_);
  const std::string missing =
      found == held_.end()
          ? "all batches"
          : Missing(*found->second, ExtentOfStep(*committed_, train_, train_samples_).batches);
  if (missing.empty()) return found->second.get();
  return Failed(fmt::format("step {} cannot be committed: {} missing", *committed_, missing));
}

void StepSums::Commit() {
  auto step = held_.extract(*committed_);
  DSLIDE_CHECK(!step.empty());
  step.mapped()->output.Clear();
  step.mapped()->input.Clear();
  step.mapped()->batches.clear();
  spare_.push_back(std::move(step.mapped()));
  ++*committed_;
}

void StepSums::Clear() {
  held_.clear();
  spare_.clear();
}

void StepSums::CheckInvariants() const {
  DSLIDE_CHECK(held_.empty() || (committed_ && held_.begin()->first >= *committed_));
}

}  // namespace dslide
