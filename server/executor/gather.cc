#include "server/executor/gather.h"

#include <fmt/core.h>

#include "common/base/check.h"
#include "common/base/overloaded.h"
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

template <typename T>
Body* Find(std::vector<Body>* parts) {
  for (Body& part : *parts) {
    if (std::holds_alternative<T>(part)) return &part;
  }
  return nullptr;
}

// The reply of the executor that has the slot.
Body GatherRows(const SlotPull& pull, std::vector<Body> parts) {
  if (Body* rows = Find<SlotRows>(&parts)) return std::move(*rows);
  return ErrorReply{ErrorCode::kRefused, fmt::format("slot {} is not here", pull.slot)};
}

}  // namespace

Body GatherReplies(const Body& request, std::vector<Body> parts) {
  DSLIDE_CHECK(!parts.empty());
  if (const auto* pull = std::get_if<SlotPull>(&request)) {
    return GatherRows(*pull, std::move(parts));
  }
  if (Body* error = Find<ErrorReply>(&parts)) return std::move(*error);
  // An EmbedPush whose next batch some executor does not take is only acknowledged.
  if (Body* ack = Find<Ack>(&parts)) return std::move(*ack);
  // The lambdas move the visited part with the others, so they look at its type alone.
  return std::visit(Overloaded{
                        [&](const EmbedReply&) -> Body {
                          return MergeEmbedded(As<EmbedReply>(std::move(parts)));
                        },
                        [&](const ActiveReply&) -> Body {
                          return MergeActive(As<ActiveReply>(std::move(parts)));
                        },
                        [&](const GradientReply&) -> Body {
                          return GradientReply{SumGradients(std::move(parts))};
                        },
                        [&](const TopKReply&) -> Body {
                          return MergeTopK(As<TopKReply>(std::move(parts)),
                                           std::get<TopKRequest>(request).k);
                        },
                        [&](const auto&) -> Body { return std::move(parts[0]); },
                    },
                    parts[0]);
}

}  // namespace dslide
