#include "server/executor/request_round.h"

#include "common/math/kernels.h"
#include "common/run/combine.h"
#include "common/wire/wire_arrays.h"
#include "server/executor/gather.h"

namespace dslide {
namespace {

bool IsFinite(const Matrix& sum) {
  return BestKernels().max_abs(sum.data.size(), sum.data.data()) <= kMostReplied;
}
bool IsFinite(const FixedMatrix& sum) { return sum.in_range; }
bool IsFinite(const PartialSum& sum) {
  return std::visit([](const auto& of_type) { return IsFinite(of_type); }, sum);
}

// Whether a reply's floats are what the protocol allows; a diverged model's are not. Sums of finite
// numbers may overflow, so this is for the gathered reply.
bool IsFinite(const Body& reply) {
  if (const auto* embed = std::get_if<EmbedReply>(&reply)) return IsFinite(embed->partial);
  if (const auto* gradient = std::get_if<GradientReply>(&reply)) return IsFinite(gradient->partial);
  if (const auto* active = std::get_if<ActiveReply>(&reply)) {
    return AllFinite(active->sum_exp) && AllFinite(active->target_logit) &&
           AllFinite(active->loss) && AllFiniteOrMinusInfinity(active->max);
  }
  if (const auto* top = std::get_if<TopKReply>(&reply)) return AllFinite(top->scores);
  return true;
}

// Whether a gathered reply is only the first half of what was asked for.
bool NeedsSecondRound(const Body& request, const Body& reply) {
  const auto* query = std::get_if<ActiveQuery>(&request);
  return query != nullptr && query->finish && std::holds_alternative<ActiveReply>(reply);
}

}  // namespace

RequestRound::Progress RequestRound::Gather(std::vector<Body> parts) {
  reply_ = GatherReplies(*request_, std::move(parts));
  if (!IsFinite(reply_)) return Progress::kDiverged;
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
