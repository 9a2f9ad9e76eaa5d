#include "server/executor/gather.h"

#include <fmt/core.h>

#include "common/base/check.h"
#include "common/run/combine.h"

namespace dslide {
namespace {

template <typename T>
std::vector<T> As(std::vector<Body> parts) {
  std::vector<T> typed;
  for (Body& part : parts) typed.push_back(std::get<T>(std::move(part)));
  return typed;
}

PartialSum SumGradients(std::vector<Body> parts) {
  std::vector<PartialSum> partials;
  for (Body& part : parts) partials.push_back(std::move(std::get<GradientReply>(part).partial));
  return SumPartials(std::move(partials));
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
    return MergeEmbedded(As<EmbedReply>(std::move(parts)));
  }
  if (std::holds_alternative<ActiveReply>(parts[0])) {
    return MergeActive(As<ActiveReply>(std::move(parts)));
  }
  if (std::holds_alternative<GradientReply>(parts[0])) {
    return GradientReply{SumGradients(std::move(parts))};
  }
  if (std::holds_alternative<TopKReply>(parts[0])) {
    return MergeTopK(As<TopKReply>(std::move(parts)), std::get<TopKRequest>(request).k);
  }
  return std::move(parts[0]);
}

}  // namespace dslide
