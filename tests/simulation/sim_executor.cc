#include "tests/simulation/sim_executor.h"

#include "common/math/kernels.h"

namespace dslide::sim {
namespace {

// FNV-1a.
uint64_t Digest(std::span<const uint8_t> bytes, uint64_t digest) {
  for (const uint8_t byte : bytes) digest = (digest ^ byte) * 0x100000001b3u;
  return digest;
}

// The batch whose gradient a request brings to a layer, if it does.
std::optional<std::pair<LayerKind, BatchId>> GradientIn(const Body& request) {
  if (const auto* push = std::get_if<GradientPush>(&request)) {
    return std::pair(LayerKind::kOutput, push->batch);
  }
  if (const auto* push = std::get_if<EmbedPush>(&request)) {
    return std::pair(LayerKind::kInput, push->batch);
  }
  return std::nullopt;
}

template <typename Visit>
void ForEachRow(Layer& layer, SlotId slot, const Visit& visit) {
  std::vector<uint8_t> value(layer.RowBytes());
  for (uint32_t row = 0; row < layer.map().SlotSize(slot); ++row) {
    layer.StoreRow(layer.map().LocalRow(slot, row), value.data());
    visit(row, value);
  }
}

}  // namespace

SimExecutor::SimExecutor(SimWorld* world, std::string name, const Config& config,
                         uint64_t train_samples, std::span<const SlotId> slots, uint32_t number)
    : world_(*world),
      name_(std::move(name)),
      config_(config),
      train_samples_(train_samples),
      slots_(slots.begin(), slots.end()),
      executor_(config, train_samples, slots, Purpose::kTraining, BestKernels()) {
  executor_.set_local_index(number);
}

JobReply SimExecutor::Run(const ExecutorJob& job, uint32_t plan_version) {
  JobReply reply = RunJob(job, plan_version, &executor_);
  if (const auto* request = std::get_if<RequestJob>(&job)) {
    const bool worked = !executor_.synchronous() && !request->StaleUnder(plan_version);
    if (worked) Observe(*request->body, std::exchange(digests_, DigestParts()));
  } else if (const auto* slots = std::get_if<SharedSlotJob>(&job)) {
    world_.slots_moved |= (*slots)->kind == SlotJob::Kind::kReserve;
    if (!std::holds_alternative<Error>(reply)) FollowSlots(plan_version);
  } else if (auto* measured = std::get_if<Measured>(&reply)) {
    measured->load = Load(measured->load.batches > 0);
  } else if (std::holds_alternative<Loaded>(reply)) {
    digests_ = DigestParts();
  }
  return reply;
}

// What was seen of a slot goes along with it.
void SimExecutor::FollowSlots(uint32_t plan_version) {
  const auto owned = executor_.output().layer().map().owned();
  for (const LayerKind layer : {LayerKind::kInput, LayerKind::kOutput}) {
    for (const SlotId slot : slots_) {
      if (std::binary_search(owned.begin(), owned.end(), slot)) continue;
      auto counts = shadow_.extract({layer, slot});
      world_.moved[{plan_version, layer, slot}] = counts ? counts.mapped() : BatchCounts();
    }
    for (const SlotId slot : owned) {
      if (std::find(slots_.begin(), slots_.end(), slot) != slots_.end()) continue;
      shadow_[{layer, slot}] = world_.moved.at({plan_version, layer, slot});
    }
  }
  slots_.assign(owned.begin(), owned.end());
  digests_ = DigestParts();
}

ExecutorLoad SimExecutor::Load(bool worked) const {
  ExecutorLoad load{worked ? 10u : 0u, 0.5, {}};
  constexpr uint32_t kSpread = 20;
  for (const SlotId slot : slots_) {
    const uint64_t draw = SubSeed(world_.setup.variant, slot.value) % kSpread;
    load.slots.push_back({slot, 1, 1, 1, static_cast<float>(1 + draw * draw), 1000, 1000});
  }
  return load;
}

SimExecutor::Digests SimExecutor::DigestParts() {
  Digests digests;
  for (Layer* layer : layers()) {
    for (const SlotId slot : slots_) {
      uint64_t& digest = digests[{layer->kind(), slot}];
      ForEachRow(*layer, slot,
                 [&](uint32_t, const auto& value) { digest = Digest(value, digest + 1); });
    }
  }
  return digests;
}

bool SimExecutor::Recorded(const PartKey& part, uint64_t batch) const {
  const Part which = part.first == LayerKind::kOutput ? Part::kOutput : Part::kInput;
  return executor_.applied().Has(which, batch, part.second);
}

// Whether a gradient cannot leave the slot as it is: with all neurons active each one's bias has a
// gradient, and so has the hidden bias, the row of feature D.
bool SimExecutor::MustChange(const PartKey& part, const Body& request) const {
  const ModelConfig& model = config_.model;
  if (model.precision != Precision::kFp32 || model.neurons == Neurons::kCentroids) return false;
  const auto output_rows = [&](SlotId slot) {
    return RowsOfSlot(model.labels, OutputSlots(config_.cluster), slot);
  };
  if (part.first == LayerKind::kOutput) {
    return model.active == ActiveSet::kAll && output_rows(part.second) > 0;
  }
  if (part.second != InputSlots(config_.cluster).SlotOf(model.features)) return false;
  constexpr float kCertain = 0.01f;
  const Matrix& gradient = std::get<EmbedPush>(request).gradient;
  for (uint32_t h = 0; h < gradient.cols; ++h) {
    float sum = 0;
    for (uint32_t i = 0; i < gradient.rows; ++i) sum += gradient.data[i * gradient.cols + h];
    if (std::abs(sum) > kCertain) return true;
  }
  return false;
}

void SimExecutor::Observe(const Body& request, const Digests& before) {
  const auto gradient = GradientIn(request);
  for (const auto& [part, digest] : digests_) {
    const bool changed = before.at(part) != digest;
    if (gradient && gradient->first == part.first) {
      ObserveGradient(part, gradient->second, request, changed);
    } else if (changed) {
      world_.oracles.Violated(fmt::format("{}: {} changed weights", name_, BodyName(request)));
    }
  }
}

// A slot changes with the gradient of a batch that it has not taken, and has taken it then; it may
// have nothing to change.
void SimExecutor::ObserveGradient(const PartKey& part, const BatchId& batch, const Body& request,
                                  bool changed) {
  const uint64_t number = BatchNumber(batch, config_.train, train_samples_);
  const auto violated = [&](const char* what) {
    world_.oracles.Violated(fmt::format("{}: batch {} {} slot {} of layer {}", name_, number, what,
                                        part.second.value, static_cast<int>(part.first)));
  };
  BatchCounts& counts = shadow_[part];
  const bool recorded = Recorded(part, number);
  const bool is_new = recorded && !counts.contains(number);
  if (changed && !recorded) violated("is not recorded, but changed");
  if (is_new && !changed && MustChange(part, request)) violated("is recorded, but did not change");
  if (recorded) counts[number] += changed;
  if (recorded && counts[number] > 1) violated("changed more than once");
}

Status SimExecutor::Restore(const SimCheckpoint& checkpoint, SimStore* store, bool stored) {
  std::vector<std::string> records;
  for (const ManifestShard& shard : checkpoint.manifest->shards) {
    const SimShard& from = checkpoint.shards.at(shard.directory);
    for (const auto& [key, value] : from.rows) {
      if (std::find(slots_.begin(), slots_.end(), key.slot) == slots_.end()) continue;
      DSLIDE_RETURN_IF_ERROR(executor_.LoadRow(key, value));
      if (stored) store->Assume(key, value);
    }
    for (const auto& [part, counts] : from.shadow) {
      if (std::find(slots_.begin(), slots_.end(), part.second) != slots_.end()) {
        shadow_[part] = counts;
      }
    }
    records.insert(records.end(), from.records.begin(), from.records.end());
  }
  DSLIDE_RETURN_IF_ERROR(executor_.FinishLoad(records));
  if (stored) executor_.AssumeStored();
  return {};
}

JobReply SimExecutor::Mark(SimStore* store, const std::optional<uint64_t>& committed,
                           uint32_t plan_version) {
  JobReply reply = Run(MarkJob{store, committed}, plan_version);
  auto* marked = std::get_if<Marked>(&reply);
  if (marked == nullptr) return reply;
  marked->stall_us = 0;  // of real time, it would differ from run to run
  StoredRows rows;
  for (Layer* layer : layers()) {
    for (const SlotId slot : slots_) {
      ForEachRow(*layer, slot, [&](uint32_t row, const auto& value) {
        rows[{layer->kind(), slot, row}] = value;
      });
    }
  }
  store->Mark(executor_.local_index(), std::move(rows), shadow_);
  return reply;
}

}  // namespace dslide::sim
