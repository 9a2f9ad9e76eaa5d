#include "tests/simulation/sim_executor.h"

#include "common/math/kernels.h"

namespace dslide::sim {
namespace {

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
                         uint64_t train_samples, std::span<const SlotId> slots, uint32_t index)
    : world_(*world),
      name_(std::move(name)),
      config_(config),
      train_samples_(train_samples),
      slots_(slots.begin(), slots.end()),
      executor_(config, train_samples, slots, index, Purpose::kTraining, BestKernels()) {}

Body SimExecutor::Handle(Incarnation sender, const Body& request) {
  Body reply = executor_.Handle(sender, request);
  if (!executor_.synchronous()) Observe(request, std::exchange(digests_, DigestParts()));
  return reply;
}

SimExecutor::Digests SimExecutor::DigestParts() {
  Digests digests;
  for (Layer* layer : {&executor_.input().layer(), &executor_.output().layer()}) {
    for (const SlotId slot : slots_) {
      uint64_t& digest = digests[{layer->kind(), slot}];
      ForEachRow(*layer, slot,
                 [&](uint32_t, const auto& value) { digest = Digest(value, digest + 1); });
    }
  }
  return digests;
}

void SimExecutor::Observe(const Body& request, const Digests& before) {
  const auto gradient = GradientIn(request);
  for (const auto& [part, digest] : digests_) {
    if (before.at(part) == digest) continue;
    if (!gradient || gradient->first != part.first) {
      world_.oracles.Violated(fmt::format("{}: {} changed weights", name_, BodyName(request)));
      continue;
    }
    const uint64_t number = BatchNumber(gradient->second, config_.train, train_samples_);
    const uint32_t times = ++shadow_[part][number];
    if (times > 1) {
      world_.oracles.Violated(fmt::format("{}: batch {} is in slot {} of layer {} {} times", name_,
                                          number, part.second.value, static_cast<int>(part.first),
                                          times));
    }
  }
}

Body SimExecutor::Load(const SimCheckpoint* checkpoint) {
  if (checkpoint == nullptr) executor_.Initialise();
  digests_ = DigestParts();
  Layer& input = executor_.input().layer();
  Layer& output = executor_.output().layer();
  return Ready{0, uint64_t{input.map().size()} + output.map().size(), 0};
}

void SimExecutor::Save(SimShard* shard) {
  for (Layer* layer : {&executor_.input().layer(), &executor_.output().layer()}) {
    for (const SlotId slot : slots_) {
      ForEachRow(*layer, slot, [&](uint32_t row, const auto& value) {
        shard->rows[{layer->kind(), slot, row}] = value;
      });
    }
  }
  for (const auto& [part, counts] : shadow_) shard->shadow[part] = counts;
}

}  // namespace dslide::sim
