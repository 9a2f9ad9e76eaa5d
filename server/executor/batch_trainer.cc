#include "server/executor/batch_trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "common/base/plural.h"
#include "common/base/random.h"
#include "common/run/batch_number.h"
#include "server/executor/batches/not_yet_applied.h"

namespace dslide {
namespace {

constexpr uint64_t kHiddenDropoutStream = 0xd1;
constexpr uint64_t kDrawStream = 0xd2;

ErrorReply Refuse(std::string text) { return {ErrorCode::kRefused, std::move(text)}; }

ErrorReply UnknownBatch(const BatchId& b) {
  return {ErrorCode::kUnknownBatch,
          fmt::format("no {} of this sender is at that stage", NameOf(b))};
}

}  // namespace

BatchTrainer::BatchTrainer(const Config& config, uint64_t train_samples, const Kernels& kernels,
                           Rows rows, std::function<void()> updated)
    : config_(config),
      train_samples_(train_samples),
      kernels_(kernels),
      rows_(rows),
      updated_(std::move(updated)),
      batches_(IsSynchronous(config.train)),
      steps_(config.train, train_samples, rows.output.layer(), rows.input.layer()) {}

float BatchTrainer::LearningRate(uint64_t batch_number) const {
  return LearningRateAt(config_, batch_number, train_samples_);
}

bool BatchTrainer::IsCommitted(const BatchId& batch) const {
  return synchronous() && StepOf(batch, config_.train, train_samples_) < committed().value_or(0);
}

// Why a batch cannot be trained now; empty: it can. What is no batch of the run has no number that
// could be kept.
std::string BatchTrainer::WhyNotOpen(const BatchId& id, uint32_t samples) const {
  const uint64_t in_run = SamplesOf(id, config_.train, train_samples_);
  if (in_run == 0) {
    return fmt::format("the run has no {}", NameOf(id));
  }
  if (!synchronous()) return "";
  if (samples != in_run) {
    return fmt::format("{} has {}, not {}", NameOf(id), Plural(in_run, "sample"), samples);
  }
  return steps_.WhyNotOpen(id);
}

Body BatchTrainer::Embed(Incarnation sender, const EmbedRequest& request) {
  const uint32_t samples = request.features.rows();
  if (std::string why = WhyNotOpen(request.batch, samples); !why.empty()) {
    return Refuse(std::move(why));
  }
  if (request.alone && rows_.output.layer().map().size() > 0) {
    return Refuse("EmbedRequest: alone is for servers without neurons");
  }
  OpenBatch& batch = batches_.Begin({sender, request.batch}, samples, request.alone);
  EmbedReply reply = rows_.input.Answer(request, &batch.input);
  DropUnits(request.batch, &reply.partial);
  return reply;
}

// Dropout of hidden units, here and not where h is formed: zeros cost next to nothing on the wire.
// All executors leave out the same units of a batch.
void BatchTrainer::DropUnits(const BatchId& batch, PartialSum* partial) const {
  const float drop = DropoutIn(config_.train, batch.epoch);
  if (drop == 0) return;
  Random random(SubSeed(SubSeed(config_.common.seed, kHiddenDropoutStream), NumberOf(batch)));
  const auto below = static_cast<uint32_t>(std::lround(drop * 0x1p16f));
  std::array<uint64_t, 64> words;
  std::array<uint16_t, 4 * words.size()> bits;  // of a unit each
  static_assert(sizeof(bits) == sizeof(words));
  std::visit(
      [&](auto& sum) {
        for (size_t begin = 0; begin < sum.data.size(); begin += bits.size()) {
          const size_t units = std::min(bits.size(), sum.data.size() - begin);
          for (size_t w = 0; w < (units + 3) / 4; ++w) words[w] = random.Next();
          std::memcpy(bits.data(), words.data(), sizeof(bits));
          // Stored whatever it is: the compiler makes vectors of that.
          auto* x = sum.data.data() + begin;
          for (size_t i = 0; i < units; ++i) {
            const uint32_t unit = bits[i];
            x[i] = unit < below ? 0 : x[i];
          }
        }
      },
      *partial);
}

// Why a query does not fit the model and its batch; empty: it fits.
std::string BatchTrainer::WhyNotAsked(const ActiveQuery& request, uint32_t samples) const {
  if (request.alone && rows_.input.layer().map().size() > 0) {
    return "ActiveQuery: alone is for servers without input rows";
  }
  const uint32_t width = OutputWidth(config_.model);
  if (request.hidden.rows != samples || request.hidden.cols != width) {
    return fmt::format("ActiveQuery: hidden is {}x{}, expected {}x{}", request.hidden.rows,
                       request.hidden.cols, samples, width);
  }
  if (request.labels.rows() != samples || request.label_totals.size() != samples) {
    return "ActiveQuery: labels are not one row a sample";
  }
  if (!request.weights.empty() && request.weights.size() != samples) {
    return "ActiveQuery: weights are not one number a sample";
  }
  if (std::ranges::any_of(request.labels.ids,
                          [&](uint32_t id) { return id >= config_.model.labels; })) {
    return fmt::format("ActiveQuery: label id above {}", config_.model.labels - 1);
  }
  for (uint32_t i = 0; i < samples; ++i) {
    if (request.labels.Ids(i).size() > request.label_totals[i]) {
      return "ActiveQuery: more labels than label_totals says";
    }
  }
  return "";
}

// Why the block of a batch's labels is too large for the memory of batches in flight; empty: it is
// not. Each distinct label here takes a number of each sample.
std::string BatchTrainer::WhyTooManyLabels(const SparseRows& labels, uint32_t samples) const {
  const uint64_t most = 2 * batches_.most_bytes() / sizeof(float) / std::max(samples, 1u);
  if (labels.ids.size() <= most) return "";
  std::vector<uint32_t> here;
  for (const uint32_t id : labels.ids) {
    const uint32_t row = rows_.output.layer().map().Local(id);
    if (row != SlotMap::kNone) here.push_back(row);
  }
  std::ranges::sort(here);
  const uint64_t distinct = here.size() - std::ranges::unique(here).size();
  if (distinct <= most) return "";
  return fmt::format(
      "ActiveQuery: {} have {} labels here, their block would take {} MB of the {} "
      "MB for all batches; lower train.batch or raise cluster.memory_mb",
      Plural(samples, "sample"), distinct, (distinct * samples * sizeof(float)) >> 20,
      batches_.most_bytes() >> 20);
}

Body BatchTrainer::Query(Incarnation sender, const ActiveQuery& request) {
  const BatchKey key{sender, request.batch};
  OpenBatch* batch = request.alone ? nullptr : batches_.Find(key, BatchStage::kEmbedded);
  if (!request.alone && (batch == nullptr || batch->alone)) return UnknownBatch(request.batch);
  const uint32_t samples = request.alone ? request.hidden.rows : batch->samples;
  // Another worker's copy of the batch was trained meanwhile.
  if (request.alone && IsCommitted(request.batch)) return UnknownBatch(request.batch);
  std::string why = WhyNotAsked(request, samples);
  if (why.empty() && request.alone) why = WhyNotOpen(request.batch, samples);
  if (why.empty()) why = WhyTooManyLabels(request.labels, samples);
  if (!why.empty()) return Refuse(std::move(why));
  if (request.alone) batch = &batches_.Begin(key, samples, true);
  ActiveReply reply = rows_.output.Query(request, DrawsOf(NumberOf(request.batch)), &batch->output);
  rows_.counter.CountQuery(batch->output);
  batch->stage = BatchStage::kQueried;
  return reply;
}

Draws BatchTrainer::DrawsOf(uint64_t number) const {
  return {SubSeed(SubSeed(config_.common.seed, kDrawStream), number),
          DrawsAt(config_, number, train_samples_), !Learns(number)};
}

void BatchTrainer::ReadAhead(const ActiveQuery& request) {
  const bool in_model = std::ranges::all_of(request.labels.ids,
                                            [&](uint32_t id) { return id < config_.model.labels; });
  if (!in_model || SamplesOf(request.batch, config_.train, train_samples_) == 0) return;
  rows_.output.ReadAhead(request.labels, DrawsOf(NumberOf(request.batch)));
}

Body BatchTrainer::Push(Incarnation sender, const GradientPush& request) {
  const BatchKey key{sender, request.batch};
  OpenBatch* batch = batches_.Find(key, BatchStage::kQueried);
  if (batch == nullptr) return UnknownBatch(request.batch);
  if (request.log_normaliser.size() != batch->samples) {
    return Refuse("GradientPush: log_normaliser is not one number a sample");
  }
  batch->stage = BatchStage::kPushed;
  rows_.counter.CountTaken();
  GradientReply reply;
  reply.partial =
      synchronous() ? HoldOutput(request, &batch->output) : ApplyOutput(request, &batch->output);
  // Units that relu or dropout made 0 pass no gradient; zeros cost next to nothing on the wire.
  const std::vector<float>& hidden = batch->output.hidden.data;
  std::visit(
      [&](auto& sum) {
        // Stored whatever it is: the compiler makes vectors of that.
        auto* x = sum.data.data();
        for (size_t i = 0; i < hidden.size(); ++i) x[i] = hidden[i] == 0 ? 0 : x[i];
      },
      reply.partial);
  if (batch->alone) {
    TakeOtherPart(request.batch, Part::kInput);
    batches_.End(key);
  }
  return reply;
}

// This server has no rows of a part's layer. A step has both parts then, whichever came.
void BatchTrainer::TakeOtherPart(const BatchId& batch, Part part) {
  if (synchronous()) {
    StepSums::Batch& held = steps_.StepOf(batch).batches[batch];
    held.output = held.input = true;
  } else if (rows_.applied.Has(part, NumberOf(batch)) != AppliedBatches::Share::kAll) {
    rows_.applied.Add(part, NumberOf(batch));
  }
}

// dL/dh, and what moves the neurons: their gradients, or their samples where these make centroids.
PartialSum BatchTrainer::Gradient(uint64_t number, const std::vector<float>& log_normaliser,
                                  OutputBatch* batch, const RowGradientSink& take) {
  if (!Learns(number)) return rows_.output.ForEachSampleOfLabel(*batch, take);
  return rows_.output.Gradient(batch, log_normaliser, take);
}

RowGradientSink BatchTrainer::NeuronUpdate(uint64_t number, uint64_t samples) {
  if (Learns(number)) return rows_.output.Updates(LearningRate(number));
  return rows_.output.SampleUpdates(samples, static_cast<uint32_t>(EpochOf(number)) + 1);
}

PartialSum BatchTrainer::ApplyOutput(const GradientPush& request, OutputBatch* batch) {
  const uint64_t number = NumberOf(request.batch);
  OutputLayer& output = rows_.output;
  const NotYetApplied not_yet_applied(rows_.applied, Part::kOutput, number, output.layer().map());
  const RowGradientSink update = NeuronUpdate(number, batch->hidden.rows);
  PassFailpoint(Failpoint::kServerBeforeApply);
  // Half applied is worse than dead: an exception in here ends the process, and a new one begins
  // from a checkpoint.
  PartialSum partial = [&]() noexcept {
    PartialSum sum = Gradient(number, request.log_normaliser, batch,
                              [&](uint32_t row, const float* g, float bias) {
                                if (!not_yet_applied.Has(row)) return;
                                update(row, g, bias);
                                rows_.counter.CountUpdate(output.layer(), row);
                              });
    const std::vector<uint32_t>& rows = batch->columns.rows;
    for (size_t u = 0; u < batch->masses.size(); ++u) {
      constexpr size_t kAhead = 16;
      if (u + kAhead < rows.size()) output.PrefetchMass(rows[u + kAhead]);
      const uint32_t row = rows[u];
      if (not_yet_applied.Has(row)) output.ObserveMass(row, batch->masses[u]);
    }
    if (not_yet_applied.any()) rows_.applied.Add(Part::kOutput, number);
    return sum;
  }();
  updated_();
  PassFailpoint(Failpoint::kServerAfterApply);
  return partial;
}

PartialSum BatchTrainer::HoldOutput(const GradientPush& request, OutputBatch* batch) {
  StepSums::Step& step = steps_.StepOf(request.batch);
  StepSums::Batch& held = step.batches[request.batch];
  const float share = steps_.ShareOfStep(request.batch, batch->hidden.rows);
  PartialSum partial = Gradient(NumberOf(request.batch), request.log_normaliser, batch,
                                [&](uint32_t row, const float* g, float bias) {
                                  if (!held.output) step.output.Add(row, share, g, bias);
                                });
  if (!held.output) {
    if (!batch->masses.empty()) held.rows = batch->columns.rows;
    held.masses = std::move(batch->masses);
  }
  held.output = true;
  return partial;
}

Body BatchTrainer::PushEmbedding(Incarnation sender, const EmbedPush& request) {
  const BatchKey key{sender, request.batch};
  OpenBatch* batch = FindForPush(key);
  if (batch == nullptr) return UnknownBatch(request.batch);
  if (request.gradient.rows != batch->samples || request.gradient.cols != config_.model.hidden) {
    return Refuse("EmbedPush: the gradient has not the shape of the batch");
  }
  if (std::string why = rows_.input.WhyNotDense(request.dense); !why.empty()) {
    return Refuse(std::move(why));
  }
  if (synchronous()) {
    HoldInput(request, batch->input);
  } else {
    ApplyInput(request, batch->input);
  }
  if (batch->alone) {
    rows_.counter.CountTaken();
    TakeOtherPart(request.batch, Part::kOutput);
    if (!synchronous()) updated_();
  }
  batches_.End(key);
  return Ack{};
}

// The batch that waits for its EmbedPush.
OpenBatch* BatchTrainer::FindForPush(const BatchKey& key) {
  if (OpenBatch* batch = batches_.Find(key, BatchStage::kPushed)) return batch;
  OpenBatch* batch = batches_.Find(key, BatchStage::kEmbedded);
  return batch != nullptr && batch->alone ? batch : nullptr;
}

void BatchTrainer::ApplyInput(const EmbedPush& request, const InputBatch& batch) noexcept {
  const uint64_t number = NumberOf(request.batch);
  InputLayer& input = rows_.input;
  const NotYetApplied not_yet_applied(rows_.applied, Part::kInput, number, input.layer().map());
  if (!not_yet_applied.any()) return;
  PassFailpoint(Failpoint::kServerBeforeApply);
  const float rate = LearningRate(number);
  if (Learns(number)) {
    const auto take = [&](uint32_t row, const float* g, float) {
      const bool takes = not_yet_applied.Has(row);
      if (takes) input.Update(row, rate, g);
      rows_.counter.CountInput(row, takes);
    };
    input.Gradient(batch, request, take);
  }
  rows_.applied.Add(Part::kInput, number);
  PassFailpoint(Failpoint::kServerAfterApply);
}

void BatchTrainer::HoldInput(const EmbedPush& request, const InputBatch& batch) {
  StepSums::Step& step = steps_.StepOf(request.batch);
  StepSums::Batch& held = step.batches[request.batch];
  if (held.input) return;
  held.input = true;
  if (!Learns(NumberOf(request.batch))) return;
  const float share = steps_.ShareOfStep(request.batch, request.gradient.rows);
  const auto take = [&](uint32_t row, const float* g, float) {
    step.input.Add(row, share, g, 0);
    rows_.counter.CountInput(row, false);
  };
  rows_.input.Gradient(batch, request, take);
}

Body BatchTrainer::Commit(const CommitSteps& request) {
  // A server without rows is asked for nothing.
  const bool rows = rows_.input.layer().map().size() + rows_.output.layer().map().size() > 0;
  if (!rows) steps_.Clear();
  if (!committed() || !rows) SetCommitted(std::max(request.committed, committed().value_or(0)));
  // Step numbers count each epoch as full: after a short one some are left out.
  const bool epoch_begins = !HasFixedSizes(config_.train) &&
                            request.committed % StepsPerEpoch(config_.train, train_samples_) == 0;
  if (epoch_begins && !steps_.holds()) {
    SetCommitted(std::max(request.committed, committed().value_or(0)));
  }
  while (*committed() < request.committed) {
    const Result<const StepSums::Step*> step = steps_.Next();
    if (!step.ok()) return Refuse(step.error().message);
    Apply(**step, ExtentOfStep(*committed(), config_.train, train_samples_));
    steps_.Commit();
  }
  // Other workers have done these meanwhile, or the steps could not be complete.
  batches_.DropIf([&](const BatchId& batch) {
    return StepOf(batch, config_.train, train_samples_) < *committed();
  });
  return StepsCommitted{*committed()};
}

void BatchTrainer::Apply(const StepSums::Step& step, const StepExtent& extent) {
  PassFailpoint(Failpoint::kServerBeforeApply);
  const float rate = LearningRate(extent.first_batch);
  size_t next = 0;
  step.input.ForEach([&](uint32_t row, const float* g, float) {
    rows_.input.layer().FetchAhead(step.input.rows(), next++);
    rows_.input.Update(row, rate, g);
    rows_.counter.CountUpdate(rows_.input.layer(), row);
  });
  const RowGradientSink update = NeuronUpdate(extent.first_batch, extent.samples);
  next = 0;
  step.output.ForEach([&](uint32_t row, const float* g, float bias) {
    rows_.output.layer().FetchAhead(step.output.rows(), next++);
    update(row, g, bias);
    rows_.counter.CountUpdate(rows_.output.layer(), row);
  });
  for (const auto& [id, batch] : step.batches) {
    for (const Part part : {Part::kOutput, Part::kInput}) {
      if (rows_.applied.Has(part, NumberOf(id)) != AppliedBatches::Share::kAll) {
        rows_.applied.Add(part, NumberOf(id));
      }
    }
    for (size_t u = 0; u < batch.masses.size(); ++u) {
      rows_.output.ObserveMass(batch.rows[u], batch.masses[u]);
    }
    updated_();
  }
  PassFailpoint(Failpoint::kServerAfterApply);
}

void BatchTrainer::DropWork() {
  batches_.Clear();
  steps_.Clear();
}

void BatchTrainer::CheckInvariants() const {
  batches_.CheckInvariants();
  steps_.CheckInvariants();
  DSLIDE_CHECK(synchronous() || !steps_.holds());
}

}  // namespace dslide
