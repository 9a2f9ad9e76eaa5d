#include "server/executor/request_round.h"

#include "common/run/combine.h"
#include "server/executor/gather.h"

namespace dslide {
namespace {

// Whether a gathered reply is only the first half of what was asked for.
bool NeedsSecondRound(const Body& request, const Body& reply) {
  const auto* query = std::get_if<ActiveQuery>(&request);
  return query != nullptr && query->finish && std::holds_alternative<ActiveReply>(reply);
}

}  // namespace

RequestRound::Progress RequestRound::Gather(std::vector<Body> parts) {
  reply_ = GatherReplies(*request_, std::move(parts));
  if (!IsInRange(reply_)) return Progress::kOutOfRange;
  if (NeedsSecondRound(*request_, reply_)) {
    active_ = std::get<ActiveReply>(std::move(reply_));
    const BatchId& batch = std::get<ActiveQuery>(*request_).batch;
    request_ = std::make_shared<const Body>(PushAfter(batch, *active_));
    return Progress::kSecondRound;
  }
  auto* gradient = std::get_if<GradientReply>(&reply_);
  if (gradient != nullptr) gradient->active = std::move(active_);
  return Progress::kReplied;
}

}  // namespace dslide
