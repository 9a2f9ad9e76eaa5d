#include "server/executor/executor.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "common/base/overloaded.h"
#include "common/base/process.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"

namespace dslide {
namespace {

constexpr const char* kDoesNotTrain = "this executor does not train";

ErrorReply Refuse(std::string text) { return {ErrorCode::kRefused, std::move(text)}; }

// What a slot takes in memory.
uint64_t SlotBytes(SlotId slot, const Layer& input, const OutputLayer& output) {
  const auto of = [&](const Layer& layer) {
    return layer.map().RegionRows(slot) *
           (layer.WeightBytes() + layer.StateBytes() + sizeof(RowScalars) + layer.MassBytes());
  };
  return of(input) + of(output.layer()) +
         output.IndexRowBytes() * output.layer().map().RegionRows(slot);
}

}  // namespace

Executor::Executor(const Config& config, uint64_t train_samples, std::span<const SlotId> slots,
                   Purpose purpose, const Kernels& kernels)
    : config_(config),
      train_samples_(train_samples),
      purpose_(purpose),
      input_(config_, slots, purpose, kernels),
      output_(config_, slots, purpose, kernels),
      applied_(slots),
      load_(config.cluster),
      counter_(&load_, input_.layer(), output_),
      trainer_(config_, train_samples, kernels, {input_, output_, applied_, counter_},
               [this] { FollowUpdates(); }),
      exchange_(&input_, &output_, &applied_),
      state_(config_, &input_, &output_) {}

void Executor::Initialise() {
  const uint64_t seed = config_.common.seed;
  input_.Initialise(config_);
  output_.layer().Initialise(seed, config_.model.output_init, config_.model.labels);
  if (output_.index() != nullptr) output_.index()->tables().CatchUp();
  CheckInvariants();
}

void Executor::ReadAhead(const Body& request) {
  if (const auto* embed = std::get_if<EmbedRequest>(&request)) {
    if (FeaturesFit(embed->features)) input_.ReadAhead(embed->features);
  } else if (const auto* query = std::get_if<ActiveQuery>(&request)) {
    trainer_.ReadAhead(*query);
  }
}

Status Executor::LoadRow(const StoredRowKey& key, std::span<const uint8_t> value) {
  thread_.CheckInDebugBuild();
  return state_.LoadRow(key, value);
}

Status Executor::FinishLoad(std::span<const std::string> records) {
  if (!trains()) return state_.FinishLoadForInference(records);
  Result<ExecutorState::Position> position = state_.FinishLoad(records);
  output_.FollowLoad();
  DSLIDE_RETURN_IF_ERROR(position);
  applied_ = std::move(position->applied);
  trainer_.SetCommitted(position->committed);
  CheckInvariants();
  return {};
}

void Executor::AssumeStored() { state_.AssumeStored(); }

void Executor::ForgetStored() {
  state_.ForgetStored();
  CheckInvariants();
}

void Executor::BeginSnapshot(SnapshotSink* sink) {
  DSLIDE_CHECK(trains());
  if (snapshot_in_progress()) AbortSnapshot();
  applied_.Merge();
  state_.BeginSnapshot(sink, local_index_, state_.Record(committed(), applied_).Encode());
  CheckInvariants();
}

bool Executor::AdvanceSnapshot(uint32_t rows) {
  thread_.CheckInDebugBuild();
  return state_.AdvanceSnapshot(rows);
}

void Executor::AbortSnapshot() {
  state_.AbortSnapshot();
  CheckInvariants();
}

bool Executor::Background() {
  if (!snapshot_in_progress()) return false;
  const SlotLoad::Busy busy(&load_);
  return AdvanceSnapshot();
}

void Executor::AwaitStore() {
  constexpr uint32_t kStepMs = 5;
  const int64_t end_us = MonotonicMicros() + int64_t{kMostWaitMs} * 1000;
  while (state_.snapshot_lags() && MonotonicMicros() < end_us) {
    if (!Background()) state_.AwaitRoom(kStepMs);
  }
}

Body Executor::Handle(Incarnation sender, const Body& request) {
  const SlotLoad::Busy busy(&load_);
  Body reply = Answer(sender, request);
  CheckInvariants();
  return reply;
}

Body Executor::Answer(Incarnation sender, const Body& request) {
  return std::visit(
      Overloaded{
          [&](const EmbedRequest& embed) { return Embed(sender, embed); },
          [&](const ActiveQuery& query) { return Query(sender, query); },
          [&](const GradientPush& push) { return trainer_.Push(sender, push); },
          [&](const EmbedPush& push) { return PushEmbedding(sender, push); },
          [&](const TopKRequest& top) { return TopK(top); },
          [&](const CommitSteps& commit) { return trainer_.Commit(commit); },
          [&](const RebuildTables& rebuild) { return Rebuild(rebuild); },
          [&](const SlotPull& pull) -> Body {
            return trains() ? exchange_.Pull(pull) : Refuse(kDoesNotTrain);
          },
          [&](const DropBatches& drop) -> Body {
            trainer_.DropWorker(drop.incarnation);
            return Ack{};
          },
          [&](const auto&) -> Body {
            return Refuse(fmt::format("a server does not answer {}", BodyName(request)));
          },
      },
      request);
}

// What a request may ask memory for: batches of the run's size, or of evaluation's.
bool Executor::BatchFits(uint32_t samples) const {
  return samples > 0 && samples <= std::max(config_.train.batch, kMaxInferenceBatch);
}

bool Executor::FeaturesFit(const SparseRows& features) const {
  return std::ranges::all_of(features.ids,
                             [&](uint32_t id) { return id <= config_.model.features; });
}

Body Executor::Embed(Incarnation sender, const EmbedRequest& request) {
  const SparseRows& features = request.features;
  if (!FeaturesFit(features)) {
    return Refuse(fmt::format("EmbedRequest: feature id above {}", config_.model.features));
  }
  if (!BatchFits(features.rows())) return Refuse("EmbedRequest: too few or too many samples");
  if (features.ids.size() != features.values.size()) {
    return Refuse("EmbedRequest: features without values");
  }
  if (request.dense && config_.model.dense.empty()) {
    return Refuse("EmbedRequest: the model has no dense layers (model.hidden is one number)");
  }
  if (request.training) {
    return trains() ? trainer_.Embed(sender, request) : Refuse(kDoesNotTrain);
  }
  InputBatch scratch;
  return input_.Answer(request, &scratch);
}

// One that is alone begins a batch.
Body Executor::Query(Incarnation sender, const ActiveQuery& request) {
  if (request.alone && !trains()) return Refuse(kDoesNotTrain);
  if (request.alone && !BatchFits(request.hidden.rows)) {
    return Refuse("ActiveQuery: too few or too many samples");
  }
  return trainer_.Query(sender, request);
}

Body Executor::PushEmbedding(Incarnation sender, const EmbedPush& request) {
  Body reply = trainer_.PushEmbedding(sender, request);
  if (!request.next || std::holds_alternative<ErrorReply>(reply)) return reply;
  Body next = Embed(sender, *request.next);
  // The push has taken effect even if the next batch is refused.
  return std::holds_alternative<ErrorReply>(next) ? std::move(reply) : std::move(next);
}

Body Executor::TopK(const TopKRequest& request) {
  if (request.hidden.cols != OutputWidth(config_.model)) return Refuse("TopKRequest: wrong width");
  if (!BatchFits(request.hidden.rows) || request.k > kMaxTopK) {
    return Refuse("TopKRequest: too few or too many samples, or k too large");
  }
  if (request.excluded.rows() != 0 && request.excluded.rows() != request.hidden.rows) {
    return Refuse("TopKRequest: excluded is not one row a sample");
  }
  if (!output_.CanSearch(request.search)) {
    return Refuse("TopKRequest: the model has no hash tables (model.active is not lsh)");
  }
  if (ScoresAllNeurons(request.search)) {
    counter_.CountScan(request.hidden.rows, output_.ScansInInt8(request));
  }
  return output_.TopK(request);
}

Body Executor::Rebuild(const RebuildTables& request) {
  const HashChoice choice{request.round, request.k};
  NeuronIndex* index = output_.index();
  if (index == nullptr || !trains()) {
    return Refuse("RebuildTables: there are no hash tables that are kept up");
  }
  if (!index->Allows(choice)) return Refuse("RebuildTables: too many hashes a table, or none");
  index->BeginRebuild(choice);
  return Ack{};
}

void Executor::FollowUpdates() {
  output_.FollowUpdates();
  // A snapshot has the codes of the tables that it began with.
  NeuronIndex* index = output_.index();
  if (index != nullptr && !snapshot_in_progress()) index->FinishRebuild();
  exchange_.FollowBatch();
}

Result<Attached> Executor::Do(const SlotJob& job) {
  const SlotLoad::Busy busy(&load_);
  Result<Attached> attached = DoSlotJob(job);
  CheckInvariants();
  return attached;
}

Result<Attached> Executor::DoSlotJob(const SlotJob& job) {
  if (!trains()) return Failed(kDoesNotTrain);
  switch (job.kind) {
    case SlotJob::Kind::kReserve:
      if (job.executor == local_index_) {
        DSLIDE_RETURN_IF_ERROR(exchange_.Reserve(job.slots));
      } else {
        exchange_.Discard(job.slots);  // the place was meant for this executor earlier
      }
      break;
    case SlotJob::Kind::kPut:
      DSLIDE_RETURN_IF_ERROR(exchange_.Put(*job.rows));
      break;
    case SlotJob::Kind::kDiscard:
      exchange_.Discard(job.slots);
      break;
    case SlotJob::Kind::kSwitchPlan:
      if (job.shape) {             // first: slots that leave take their new rows along
        exchange_.ForgetCopies();  // of as many rows as there were
        Resize(*job.shape);
      }
      if (job.config) config_ = *job.config;
      SwitchPlan(job.slots);
      break;
    case SlotJob::Kind::kAttach:
      return Attach(job.slots);
    case SlotJob::Kind::kRelease:
      exchange_.Release(job.slots);
      break;
    case SlotJob::Kind::kForgetCopy:
      exchange_.ForgetCopies(job.slots);
      break;
  }
  return Attached{};
}

void Executor::SwitchPlan(std::span<const SlotId> slots) {
  PassFailpoint(Failpoint::kServerBeforePlanSwitch);
  DropWork();
  if (exchange_.Depart(slots, committed())) PassFailpoint(Failpoint::kServerPlanSwitched);
}

void Executor::Resize(const ModelShape& shape) {
  DropWork();
  input_.Resize(config_, shape);
  output_.Resize(config_, shape);
  config_ = SizedBy(shape, std::move(config_));
  if (!synchronous()) return;
  // Step numbers count each epoch as full: after a short one some are left out.
  const uint64_t first = (shape.epoch - 1) * StepsPerEpoch(config_.train, train_samples_);
  trainer_.SetCommitted(std::max(first, committed().value_or(0)));
}

Result<Attached> Executor::Attach(std::span<const SlotId> slots) {
  Result<SlotExchange::Arrival> arrival = exchange_.Arriving(slots, synchronous(), committed());
  DSLIDE_RETURN_IF_ERROR(arrival);
  if (arrival->slots.empty()) return Attached{};
  PassFailpoint(Failpoint::kServerBeforeAttach);
  DropWork();
  trainer_.SetCommitted(arrival->committed);
  exchange_.Attach(*arrival);
  PassFailpoint(Failpoint::kServerAfterAttach);
  return Attached{std::move(arrival->slots)};
}

// What began with other slots here cannot go on: batches, which their workers begin again, steps
// and a snapshot.
void Executor::DropWork() {
  if (snapshot_in_progress()) AbortSnapshot();
  trainer_.DropWork();
}

uint64_t Executor::MemoryBytes() const {
  return input_.layer().MemoryBytes() + output_.MemoryBytes();
}

ExecutorLoad Executor::TakeLoad() {
  ExecutorLoad load = load_.Take(output_.layer().map().owned());
  for (SlotCost& cost : load.slots) cost.bytes = SlotBytes(cost.slot, input_.layer(), output_);
  return load;
}

std::optional<TableFigures> Executor::MeasureTables() const {
  const NeuronIndex* index = output_.index();
  if (index == nullptr) return std::nullopt;
  return TableFigures{index->tables().tables().Occupancy(), index->functions().round,
                      index->tables().lag_batches()};
}

Measured Executor::Measure(bool tables) {
  Measured measured{TakeLoad(), MemoryBytes() + trainer_.BatchBytes(),
                    static_cast<uint32_t>(batches_in_flight()),
                    tables ? MeasureTables() : std::nullopt};
  for (const Layer* layer : {&input_.layer(), &output_.layer()}) {
    measured.on_disk += layer->on_disk();
  }
  return measured;
}

void Executor::CheckInvariants() {
  thread_.CheckInDebugBuild();
  exchange_.CheckInvariants();
  trainer_.CheckInvariants();
  if (trains()) return;
  DSLIDE_CHECK(batches_in_flight() == 0 && exchange_.idle() && !snapshot_in_progress());
}

}  // namespace dslide
