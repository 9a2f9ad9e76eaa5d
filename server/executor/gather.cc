#include "server/executor/gather.h"

#include <fmt/core.h>

#include "common/base/check.h"
#include "common/run/combine.h"
#include "common/run/dense_layers.h"

namespace dslide {
namespace {

template <typename T>
std::vector<T> As(std::vector<Body> parts) {
  std::vector<T> typed;
  for (Body& part : parts) typed.push_back(std::get<T>(std::move(part)));
  return typed;
}

template <typename T>
std::vector<PartialSum> Partials(std::vector<Body> parts) {
  std::vector<PartialSum> partials;
  for (Body& part : parts) partials.push_back(std::move(std::get<T>(part).partial));
  return partials;
}

// Those of all executors; none if they were not asked for.
std::optional<LayerRows> DenseRows(std::vector<Body>* parts) {
  std::vector<LayerRows> rows;
  for (Body& part : *parts) {
    std::optional<LayerRows>& of_part = std::get<EmbedReply>(part).dense;
    if (of_part) rows.push_back(*std::move(of_part));
  }
  if (rows.empty()) return std::nullopt;
  return MergeRows(std::move(rows));
}

// The reply of the executor that has the slot.
Body GatherRows(const SlotPull& pull, std::vector<Body> parts) {
  for (Body& part : parts) {
    if (std::holds_alternative<SlotRows>(part)) return std::move(part);
  }
  return ErrorReply{ErrorCode::kRefused, fmt::format("slot {} is not here", pull.slot)};
}

}  // namespace

Body GatherReplies(const Body& request, std::vector<Body> parts) {
  DSLIDE_CHECK(!parts.empty());
  if (const auto* pull = std::get_if<SlotPull>(&request)) {
    return GatherRows(*pull, std::move(parts));
  }
  for (Body& part : parts) {
    if (std::holds_alternative<ErrorReply>(part)) return std::move(part);
  }
  // An EmbedPush whose next batch some executor does not take is only acknowledged.
  for (Body& part : parts) {
    if (std::holds_alternative<Ack>(part)) return std::move(part);
  }
  if (std::holds_alternative<EmbedReply>(parts[0])) {
    std::optional<LayerRows> dense = DenseRows(&parts);
    return EmbedReply{SumPartials(Partials<EmbedReply>(std::move(parts))), std::move(dense)};
  }
  if (std::holds_alternative<ActiveReply>(parts[0])) {
    return MergeActive(As<ActiveReply>(std::move(parts)));
  }
  if (std::holds_alternative<GradientReply>(parts[0])) {
    return GradientReply{SumPartials(Partials<GradientReply>(std::move(parts)))};
  }
  if (std::holds_alternative<TopKReply>(parts[0])) {
    return MergeTopK(As<TopKReply>(std::move(parts)), std::get<TopKRequest>(request).k);
  }
  return std::move(parts[0]);
}

}  // namespace dslide
