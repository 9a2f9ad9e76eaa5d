#include "server/executor/executor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/base/failpoint.h"

namespace dslide {
namespace {

constexpr uint64_t kHiddenDropoutStream = 0xd1;

ErrorReply Refuse(std::string text) { return {ErrorCode::kRefused, std::move(text)}; }

ErrorReply UnknownBatch(const BatchId& b) {
  return {ErrorCode::kUnknownBatch, fmt::format("no batch {}.{}.{} of this sender is at that stage",
                                                b.epoch, b.unit, b.index)};
}

bool IdsBelow(const SparseRows& rows, uint32_t bound) {
  for (const uint32_t id : rows.ids) {
    if (id >= bound) return false;
  }
  return true;
}

}  // namespace

uint64_t NegativeSeed(uint64_t seed, uint32_t executor) {
  return SubSeed(SubSeed(seed, 0x4e6), executor);
}

Executor::Executor(const Config& config, uint64_t train_samples, std::span<const SlotId> slots,
                   uint32_t index, Purpose purpose, const Kernels& kernels)
    : config_(config),
      train_samples_(train_samples),
      cluster_index_(index),
      negative_seed_(NegativeSeed(config.common.seed, index)),
      purpose_(purpose),
      kernels_(kernels),
      input_(config, slots, purpose, kernels),
      output_(config, slots, purpose, kernels),
      applied_(slots),
      load_(config.cluster.slots),
      source_(&input_, &output_) {}

void Executor::Initialise() {
  const uint64_t seed = config_.common.seed;
  input_.layer().Initialise(seed, config_.model.input_init, config_.model.features);
  output_.layer().Initialise(seed, config_.model.output_init, config_.model.labels);
  if (output_.tables() != nullptr) output_.tables()->CatchUp();
  CheckInvariants();
}

Body Executor::Handle(Incarnation sender, const Body& request) {
  const SlotLoad::Busy busy(&load_);
  Body reply = Answer(sender, request);
  CheckInvariants();
  return reply;
}

Body Executor::Answer(Incarnation sender, const Body& request) {
  if (const auto* embed = std::get_if<EmbedRequest>(&request)) return Embed(sender, *embed);
  if (const auto* query = std::get_if<ActiveQuery>(&request)) return Query(sender, *query);
  if (const auto* push = std::get_if<GradientPush>(&request)) return Push(sender, *push);
  if (const auto* push = std::get_if<EmbedPush>(&request)) return PushEmbedding(sender, *push);
  if (const auto* top = std::get_if<TopKRequest>(&request)) return TopK(*top);
  if (const auto* drop = std::get_if<DropBatches>(&request)) return Drop(*drop);
  if (const auto* commit = std::get_if<CommitSteps>(&request)) return Commit(*commit);
  if (const auto* rebuild = std::get_if<RebuildTables>(&request)) return Rebuild(*rebuild);
  if (const auto* pull = std::get_if<SlotPull>(&request)) return Pull(*pull);
  return Refuse(fmt::format("a server does not answer {}", BodyName(request)));
}

size_t Executor::OfWorker(Incarnation worker) const {
  const auto begin = batches_.lower_bound({worker, {}});
  const auto end = batches_.upper_bound({worker, {~0u, ~0u, ~0u}});
  return static_cast<size_t>(std::distance(begin, end));
}

Executor::Batch* Executor::Find(const BatchKey& key, Stage stage) {
  const auto found = batches_.find(key);
  return found == batches_.end() || found->second->stage != stage ? nullptr : found->second.get();
}

float Executor::LearningRate(uint64_t batch_number) const {
  const uint64_t total = config_.train.epochs * BatchesPerEpoch(config_.train, train_samples_);
  return LearningRateAt(config_.train, batch_number, total);
}

// What a request may ask memory for: batches of the run's size, or of evaluation's.
bool Executor::BatchFits(uint32_t samples) const {
  return samples > 0 && samples <= std::max(config_.train.batch, kMaxInferenceBatch);
}

Body Executor::Embed(Incarnation sender, const EmbedRequest& request) {
  const uint32_t features = config_.model.features;
  if (!IdsBelow(request.features, features + 1)) {
    return Refuse(fmt::format("EmbedRequest: feature id above {}", features));
  }
  if (!BatchFits(request.features.rows()))
    return Refuse("EmbedRequest: too few or too many samples");
  if (request.features.ids.size() != request.features.values.size()) {
    return Refuse("EmbedRequest: features without values");
  }
  InputBatch scratch;
  if (!request.training) return EmbedReply{input_.Embed(request.features, &scratch)};

  if (purpose_ == Purpose::kInference) return Refuse("this executor does not train");
  if (std::string why = WhyNotOpen(request); !why.empty()) return Refuse(std::move(why));
  const BatchKey key{sender, request.batch};
  batches_.erase(key);  // a worker that gave the batch up starts it anew
  MakeRoom(sender, request.batch);
  std::unique_ptr<Batch> batch;
  if (spare_.empty()) {
    batch = std::make_unique<Batch>();
  } else {
    batch = std::move(spare_.back());
    spare_.pop_back();
  }
  batch->stage = Stage::kEmbedded;
  batch->arrival = ++arrivals_;
  batch->samples = request.features.rows();
  EmbedReply reply{input_.Embed(request.features, &batch->input)};
  DropUnits(NumberOf(request.batch), &reply.partial);
  batches_.emplace(key, std::move(batch));
  return reply;
}

// Why a batch cannot be trained now; empty: it can. What is no batch of the run has no number that
// could be kept.
std::string Executor::WhyNotOpen(const EmbedRequest& request) const {
  const BatchId& id = request.batch;
  const uint64_t samples = SamplesOf(id, config_.train, train_samples_);
  if (samples == 0)
    return fmt::format("the run has no batch {}.{}.{}", id.epoch, id.unit, id.index);
  if (!IsSynchronous(config_.train)) return "";
  if (request.features.rows() != samples) {
    return fmt::format("batch {}.{}.{} has {} samples, not {}", id.epoch, id.unit, id.index,
                       samples, request.features.rows());
  }
  const uint64_t step = StepOf(request.batch, config_.train, train_samples_);
  const uint64_t committed = committed_.value_or(0);
  const auto staleness = static_cast<uint64_t>(config_.train.staleness);
  if (committed_ && step >= committed && step <= committed + staleness) return "";
  return fmt::format("step {} is not open, {} are committed", step, committed);
}

// Gives up batches that nobody will go on with: of an epoch that is over, a worker's lowest one,
// the oldest of all.
void Executor::MakeRoom(Incarnation sender, const BatchId& next) {
  if (next.epoch > epoch_ && !IsSynchronous(config_.train)) {
    std::erase_if(batches_,
                  [&](const auto& entry) { return entry.first.batch.epoch < next.epoch; });
  }
  epoch_ = std::max(epoch_, next.epoch);
  if (OfWorker(sender) >= kMaxBatchesOfWorker) batches_.erase(batches_.lower_bound({sender, {}}));
  if (batches_.size() < kMaxBatchesInFlight) return;
  batches_.erase(std::min_element(batches_.begin(), batches_.end(), [](auto& a, auto& b) {
    return a.second->arrival < b.second->arrival;
  }));
}

// Dropout of hidden units, here and not where h is formed: zeros cost next to nothing on the wire.
// All executors leave out the same units of a batch.
void Executor::DropUnits(uint64_t batch_number, Matrix* partial) const {
  const float drop = config_.train.dropout_hidden;
  if (drop == 0) return;
  Random random(SubSeed(SubSeed(config_.common.seed, kHiddenDropoutStream), batch_number));
  const auto below = static_cast<uint32_t>(std::lround(drop * 0x1p16f));
  uint64_t bits = 0;  // 16 a unit
  for (size_t i = 0; i < partial->data.size(); ++i, bits >>= 16) {
    if (i % 4 == 0) bits = random.Next();
    if ((bits & 0xffff) < below) partial->data[i] = 0.0f;
  }
}

Body Executor::Query(Incarnation sender, const ActiveQuery& request) {
  Batch* batch = Find({sender, request.batch}, Stage::kEmbedded);
  if (batch == nullptr) return UnknownBatch(request.batch);
  if (request.hidden.rows != batch->samples || request.hidden.cols != config_.model.hidden) {
    return Refuse(fmt::format("ActiveQuery: hidden is {}x{}, expected {}x{}", request.hidden.rows,
                              request.hidden.cols, batch->samples, config_.model.hidden));
  }
  if (request.labels.rows() != batch->samples || request.label_totals.size() != batch->samples) {
    return Refuse("ActiveQuery: labels are not one row a sample");
  }
  if (!IdsBelow(request.labels, config_.model.labels)) {
    return Refuse(fmt::format("ActiveQuery: label id above {}", config_.model.labels - 1));
  }
  for (uint32_t i = 0; i < batch->samples; ++i) {
    if (request.labels.Ids(i).size() > request.label_totals[i]) {
      return Refuse("ActiveQuery: more labels than label_totals says");
    }
  }
  if (!IsSynchronous(config_.train)) {
    output_.FollowActivations(ColumnMeans(request.hidden, kernels_));
  }
  Random random(SubSeed(negative_seed_, NumberOf(request.batch)));
  ActiveReply reply = output_.Query(request, &random, &batch->output);
  CountQuery(batch->output);
  batch->stage = Stage::kQueried;
  return reply;
}

Body Executor::Push(Incarnation sender, const GradientPush& request) {
  Batch* batch = Find({sender, request.batch}, Stage::kQueried);
  if (batch == nullptr) return UnknownBatch(request.batch);
  if (request.log_normaliser.size() != batch->samples) {
    return Refuse("GradientPush: log_normaliser is not one number a sample");
  }
  batch->stage = Stage::kPushed;
  load_.CountTaken(output_.tables() == nullptr ? 0 : output_.tables()->build_steps());
  GradientReply reply;
  if (IsSynchronous(config_.train)) {
    reply.partial = HoldOutput(request, &batch->output);
  } else {
    const uint64_t number = NumberOf(request.batch);
    const float rate = LearningRate(number);
    const NotYetApplied not_yet_applied(applied_, Part::kOutput, number, output_.layer().map());
    PassFailpoint(Failpoint::kServerBeforeApply);
    // Half applied is worse than dead: out of memory in here ends the process, and a new one begins
    // from a checkpoint.
    [&]() noexcept {
      reply.partial = output_.Gradient(&batch->output, request.log_normaliser,
                                       [&](uint32_t row, const float* g, float bias) {
                                         if (!not_yet_applied.Has(row)) return;
                                         output_.Update(row, rate, g, bias);
                                         CountUpdate(output_.layer(), row);
                                       });
      if (not_yet_applied.any()) applied_.Add(Part::kOutput, number);
    }();
    FollowUpdates();
    PassFailpoint(Failpoint::kServerAfterApply);
  }
  // Relu passes no gradient where h is 0; zeros cost next to nothing on the wire.
  const std::vector<float>& hidden = batch->output.hidden.data;
  for (size_t i = 0; i < hidden.size(); ++i) {
    if (hidden[i] <= 0) reply.partial.data[i] = 0;
  }
  return reply;
}

// What comes after a batch's updates.
void Executor::FollowUpdates() {
  output_.FollowUpdates();
  // A snapshot has the codes of the tables that it began with.
  if (!snapshot_in_progress()) output_.FinishRebuild();
  source_.FollowBatch();
}

Body Executor::PushEmbedding(Incarnation sender, const EmbedPush& request) {
  const BatchKey key{sender, request.batch};
  Batch* batch = Find(key, Stage::kPushed);
  if (batch == nullptr) return UnknownBatch(request.batch);
  if (request.gradient.rows != batch->samples || request.gradient.cols != config_.model.hidden) {
    return Refuse("EmbedPush: the gradient has not the shape of the batch");
  }
  if (IsSynchronous(config_.train)) {
    HoldInput(request, batch->input);
  } else {
    ApplyInput(NumberOf(request.batch), batch->input, request.gradient);
  }
  auto node = batches_.extract(key);
  spare_.push_back(std::move(node.mapped()));
  if (!request.next) return Ack{};
  Body reply = Embed(sender, *request.next);
  // The push has taken effect all the same.
  return std::holds_alternative<ErrorReply>(reply) ? Body(Ack{}) : std::move(reply);
}

void Executor::ApplyInput(uint64_t number, const InputBatch& batch,
                          const Matrix& gradient) noexcept {
  const NotYetApplied not_yet_applied(applied_, Part::kInput, number, input_.layer().map());
  if (!not_yet_applied.any()) return;
  PassFailpoint(Failpoint::kServerBeforeApply);
  const float rate = LearningRate(number);
  input_.Gradient(batch, gradient, [&](uint32_t row, const float* g, float) {
    const bool takes = not_yet_applied.Has(row);
    if (takes) input_.Update(row, rate, g);
    CountInput(row, takes);
  });
  applied_.Add(Part::kInput, number);
  PassFailpoint(Failpoint::kServerAfterApply);
}

Body Executor::TopK(const TopKRequest& request) {
  if (request.hidden.cols != config_.model.hidden) return Refuse("TopKRequest: wrong width");
  if (!BatchFits(request.hidden.rows) || request.k > kMaxTopK) {
    return Refuse("TopKRequest: too few or too many samples, or k too large");
  }
  if (request.excluded.rows() != 0 && request.excluded.rows() != request.hidden.rows) {
    return Refuse("TopKRequest: excluded is not one row a sample");
  }
  if (request.search == Search::kLsh && output_.tables() == nullptr) {
    return Refuse("TopKRequest: the model has no hash tables (model.active is not lsh)");
  }
  if (request.search == Search::kExact) CountScan(request.hidden.rows);
  return output_.TopK(request);
}

Body Executor::Rebuild(const RebuildTables& request) {
  const HashChoice choice{request.round, request.k};
  if (output_.tables() == nullptr || purpose_ == Purpose::kInference) {
    return Refuse("RebuildTables: there are no hash tables that are kept up");
  }
  if (!output_.Allows(choice)) return Refuse("RebuildTables: too many hashes a table, or none");
  if (choice == output_.hashing() || choice.round > output_.newest_round()) {
    output_.BeginRebuild(choice);
  }
  return Ack{};
}

Body Executor::Drop(const DropBatches& request) {
  std::erase_if(batches_,
                [&](const auto& entry) { return entry.first.worker == request.incarnation; });
  return Ack{};
}

}  // namespace dslide
