#include "server/executor/gather.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/run/combine.h"

namespace dslide {
namespace {

template <typename T>
std::vector<T> As(std::vector<Body> parts) {
  std::vector<T> typed;
  for (Body& part : parts) typed.push_back(std::get<T>(std::move(part)));
  return typed;
}

template <typename T>
std::vector<Matrix> Partials(std::vector<Body> parts) {
  std::vector<Matrix> matrices;
  for (Body& part : parts) matrices.push_back(std::move(std::get<T>(part).partial));
  return matrices;
}

// Of the executor that has the slot.
Body GatherRows(const SlotPull& pull, std::vector<Body> parts) {
  for (Body& part : parts) {
    if (std::holds_alternative<SlotRows>(part)) return std::move(part);
  }
  return ErrorReply{ErrorCode::kRefused, fmt::format("slot {} is not here", pull.slot)};
}

}  // namespace

Body GatherReplies(const Body& request, std::vector<Body> parts) {
  DSLIDE_CHECK(!parts.empty());
  if (const auto* pull = std::get_if<SlotPull>(&request))
    return GatherRows(*pull, std::move(parts));
  for (Body& part : parts) {
    if (std::holds_alternative<ErrorReply>(part)) return std::move(part);
  }
  // An EmbedPush whose next batch some executor does not take is only acknowledged.
  for (Body& part : parts) {
    if (std::holds_alternative<Ack>(part)) return std::move(part);
  }
  if (std::holds_alternative<EmbedReply>(parts[0])) {
    return EmbedReply{SumMatrices(Partials<EmbedReply>(std::move(parts)))};
  }
  if (std::holds_alternative<ActiveReply>(parts[0])) {
    return MergeActive(As<ActiveReply>(std::move(parts)));
  }
  if (std::holds_alternative<GradientReply>(parts[0])) {
    return GradientReply{SumMatrices(Partials<GradientReply>(std::move(parts)))};
  }
  if (std::holds_alternative<TopKReply>(parts[0])) {
    return MergeTopK(As<TopKReply>(std::move(parts)), std::get<TopKRequest>(request).k);
  }
  return std::move(parts[0]);
}

LoadReport GatherLoads(const std::vector<Body>& parts, uint32_t interval_ms) {
  struct Place {
    uint32_t slot;
    uint16_t executor;
    size_t at;
  };
  LoadReport sum;
  sum.interval_ms = interval_ms;
  std::vector<Place> places;
  for (size_t e = 0; e < parts.size(); ++e) {
    const auto* beat = std::get_if<Heartbeat>(&parts[e]);
    const bool has_load = beat != nullptr && beat->load;
    const double seconds = has_load && !beat->load->busy.empty() ? beat->load->busy[0] : 0.0;
    sum.busy.push_back(static_cast<float>(1000.0 * seconds / std::max(1u, interval_ms)));
    if (!has_load) continue;
    sum.batches = std::max(sum.batches, beat->load->batches);
    for (size_t i = 0; i < beat->load->slots.size(); ++i) {
      places.push_back({beat->load->slots[i], static_cast<uint16_t>(e), i});
    }
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.slot < b.slot; });
  for (const Place& place : places) {
    const LoadReport& load = *std::get<Heartbeat>(parts[place.executor]).load;
    sum.slots.push_back(place.slot);
    sum.executor.push_back(place.executor);
    sum.retrieved.push_back(load.retrieved[place.at]);
    sum.used.push_back(load.used[place.at]);
    sum.updated.push_back(load.updated[place.at]);
    sum.work.push_back(load.work[place.at]);
    sum.service_us.push_back(load.service_us[place.at]);
    sum.bytes.push_back(load.bytes[place.at]);
  }
  return sum;
}

std::optional<GradientPush> SecondRound(const Body& request, const Body& reply) {
  const auto* query = std::get_if<ActiveQuery>(&request);
  const auto* statistics = std::get_if<ActiveReply>(&reply);
  if (query == nullptr || !query->finish || statistics == nullptr) return std::nullopt;
  return PushAfter(query->batch, *statistics);
}

}  // namespace dslide
