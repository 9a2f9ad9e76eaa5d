#include "server/gather.h"

#include "common/net/combine.h"

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

}  // namespace

Body GatherReplies(const Body& request, std::vector<Body> parts) {
  DSLIDE_CHECK(!parts.empty());
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

std::optional<GradientPush> SecondRound(const Body& request, const Body& reply) {
  const auto* query = std::get_if<ActiveQuery>(&request);
  const auto* statistics = std::get_if<ActiveReply>(&reply);
  if (query == nullptr || !query->finish || statistics == nullptr) return std::nullopt;
  return PushAfter(query->batch, *statistics);
}

}  // namespace dslide
