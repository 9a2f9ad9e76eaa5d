#include "server/gate/number_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/overloaded.h"
#include "common/config/limits.h"
#include "common/math/kernels.h"
#include "common/run/batch_number.h"
#include "common/run/combine.h"
#include "server/base/events.h"
#include "server/gate/request_bytes.h"

namespace dslide {
namespace {

// Rows whose ids ascend, as honest workers send them, are seen without being sorted.
bool HasTwice(const SparseRows& rows) {
  std::vector<uint32_t> sorted;
  for (uint32_t i = 0; i < rows.rows(); ++i) {
    const auto ids = rows.Ids(i);
    const auto not_above = [](uint32_t a, uint32_t b) { return a >= b; };
    if (std::ranges::adjacent_find(ids, not_above) == ids.end()) continue;
    sorted.assign(ids.begin(), ids.end());
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) return true;
  }
  return false;
}

// No early exit, so that it vectorises.
bool HasNegative(const std::vector<float>& numbers) {
  bool negative = false;
  for (const float x : numbers) negative |= x < 0;
  return negative;
}

float LargestOf(const std::vector<float>& numbers) {
  return BestKernels().max_abs(numbers.size(), numbers.data());
}

// Infinity if it is out of range.
float LargestNorm(const Matrix& matrix) {
  const Kernels& kernels = BestKernels();
  float most = 0;
  for (uint32_t i = 0; i < matrix.rows; ++i) {
    most = std::max(most, kernels.dot(matrix.cols, matrix.row(i), matrix.row(i)));
  }
  return std::sqrt(most);
}
float LargestNorm(const SparseRows& rows) {
  const Kernels& kernels = BestKernels();
  float most = 0;
  if (rows.values.size() != rows.ids.size()) return 0;
  for (uint32_t i = 0; i < rows.rows(); ++i) {
    const auto values = rows.Values(i);
    most = std::max(most, kernels.dot(values.size(), values.data(), values.data()));
  }
  return std::sqrt(most);
}

// The largest element that a sum of the servers' replies can have.
float MostSummed(const ServerSeat& seat) {
  const auto servers = static_cast<float>(std::max<size_t>(1, seat.plan.servers.size()));
  const float dropout = std::max(DropoutHidden(seat.config.train), kHighDropout);
  return 2 * kMostReplied * servers / (1.0f - dropout);
}

// What a request asks about without changing the model: which batch, and for what kind of reply. An
// EmbedPush has changed it for its own batch; what it is answered is about the next one.
struct Question {
  BatchId batch;
  size_t kind = 0;
};
std::optional<Question> QuestionOf(const Body& request) {
  using Asked = std::optional<Question>;
  return std::visit(Overloaded{
                        [](const EmbedRequest& embed) -> Asked {
                          return Question{embed.batch, 0};
                        },
                        [](const ActiveQuery& query) -> Asked {
                          return Question{query.batch, 1};
                        },
                        [](const TopKRequest& top) -> Asked {
                          return Question{top.batch, 2};
                        },
                        [](const EmbedPush& push) -> Asked {
                          return push.next ? Asked({push.next->batch, 0}) : std::nullopt;
                        },
                        [](const auto&) -> Asked { return std::nullopt; },
                    },
                    request);
}

// `what` and `did`: an offence's reason, for example "a request" and "led to other numbers".
void NoteLies(const char* what, const char* did, NormBound* bound, ServerOutbox* out) {
  for (const NormBound::Lie& lie : bound->TakeLies()) {
    out->NoteOffence(Offence{lie.sender.value, lie.batch, fmt::format("{} {}", what, did), {}});
  }
}

std::string WhyFeaturesAreAbsurd(const EmbedRequest& request) {
  if (LargestOf(request.features.values) > NumberCheck::kMostValue) {
    return fmt::format("EmbedRequest: a feature's value is above {:g}", NumberCheck::kMostValue);
  }
  if (HasTwice(request.features)) return "EmbedRequest: a feature is there twice";
  return "";
}

std::string WhyQueryIsAbsurd(const ActiveQuery& query, const ServerSeat& seat) {
  if (!IsLinear(seat.config.model) && HasNegative(query.hidden.data)) {
    return "ActiveQuery: hidden has a negative number";
  }
  if (LargestOf(query.hidden.data) > MostSummed(seat)) {
    return "ActiveQuery: hidden has numbers that no model gives";
  }
  if (LargestOf(query.weights) > NumberCheck::kMostWeight) {
    return fmt::format("ActiveQuery: a weight is above {:g}", NumberCheck::kMostWeight);
  }
  if (HasTwice(query.labels)) return "ActiveQuery: a label is there twice";
  const bool counts = query.labels.rows() == query.label_totals.size();
  for (uint32_t i = 0; counts && i < query.labels.rows(); ++i) {
    const uint32_t total = query.label_totals[i];
    if (query.labels.Ids(i).size() > total) {
      return "ActiveQuery: more labels than label_totals says";
    }
    if (total > seat.config.model.labels) {
      return "ActiveQuery: label_totals is more than there are labels";
    }
  }
  return "";
}

std::string WhyGradientIsAbsurd(const EmbedPush& push, const ServerSeat& seat) {
  if (LargestOf(push.gradient.data) > MostSummed(seat)) {
    return "EmbedPush: the gradient has numbers that no model gives";
  }
  if (push.dense && LargestOf(push.dense->values.data) > kMostReplied) {
    return "EmbedPush: the gradients of dense layers have numbers that no model gives";
  }
  return "";
}

std::string WhyHiddenIsAbsurd(const TopKRequest& top, const ServerSeat& seat) {
  if (LargestOf(top.hidden.data) <= MostSummed(seat)) return "";
  return "TopKRequest: hidden has numbers that no model gives";
}

}  // namespace

std::string NumberCheck::WhyRefused(Incarnation sender, const Body& request, const ServerSeat& seat,
                                    ServerOutbox* out) {
  std::string why = WhyAbsurd(sender, request, seat);
  if (why.empty()) return WhyTooLarge(sender, request, out);
  out->NoteOffence(Offence{sender.value, BatchOf(request).value_or(BatchId()), why, {}});
  return why;
}

std::string NumberCheck::WhyAbsurd(Incarnation sender, const Body& request,
                                   const ServerSeat& seat) const {
  return std::visit(
      Overloaded{
          [&](const EmbedRequest& embed) { return WhyFeaturesAreAbsurd(embed); },
          [&](const ActiveQuery& query) { return WhyQueryIsAbsurd(query, seat); },
          [&](const GradientPush& push) { return WhyLogIsAbsurd(sender, push, seat); },
          [&](const EmbedPush& push) { return WhyGradientIsAbsurd(push, seat); },
          [&](const TopKRequest& top) { return WhyHiddenIsAbsurd(top, seat); },
          [&](const auto&) { return std::string(); },
      },
      request);
}

std::string NumberCheck::WhyLogIsAbsurd(Incarnation sender, const GradientPush& request,
                                        const ServerSeat& seat) const {
  if (seat.config.model.loss != Loss::kSoftmax) return "";
  if (LargestOf(request.log_normaliser) > MostSummed(seat)) {
    return "GradientPush: log_normaliser has numbers that no model gives";
  }
  const auto open = open_.find({sender, request.batch});
  if (open == open_.end()) return "";
  const std::vector<float>& own = open->second.log_sums;
  const size_t samples = std::min(own.size(), request.log_normaliser.size());
  for (size_t i = 0; i < samples; ++i) {
    const float least = own[i] - kLogTolerance - kLogShare * std::abs(own[i]);
    if (request.log_normaliser[i] < least) {
      return fmt::format("GradientPush: log_normaliser is {:g}, this server alone has {:g}",
                         request.log_normaliser[i], own[i]);
    }
  }
  return "";
}

std::string NumberCheck::WhyTooLarge(Incarnation sender, const Body& request, ServerOutbox* out) {
  if (const auto* embed = std::get_if<EmbedRequest>(&request); embed && embed->training) {
    return Judge(&features_, "EmbedRequest: features", sender, embed->batch,
                 LargestNorm(embed->features), out);
  }
  if (const auto* query = std::get_if<ActiveQuery>(&request)) {
    const float weight = query->weights.empty() ? 1.0f : LargestOf(query->weights);
    std::string why = Judge(&weights_, "ActiveQuery: weights", sender, query->batch, weight, out);
    if (!why.empty()) return why;
    return Judge(&hidden_, "ActiveQuery: hidden", sender, query->batch, LargestNorm(query->hidden),
                 out);
  }
  if (const auto* push = std::get_if<EmbedPush>(&request)) {
    const Key key{sender, push->batch};
    const float norm = LargestNorm(push->gradient) * static_cast<float>(push->gradient.rows);
    std::string why = Judge(&gradient_, "EmbedPush: the gradient", sender, push->batch, norm, out);
    if (why.empty() && push->dense) {
      // A mean over the samples: the fewer, the more noise is left in it.
      const float scale = std::sqrt(static_cast<float>(push->gradient.rows));
      why = Judge(&dense_, "EmbedPush: the gradients of dense layers", sender, push->batch,
                  LargestNorm(push->dense->values) * scale, out);
    }
    if (const auto open = open_.find(key); open != open_.end()) {
      numbers_ -= open->second.log_sums.size();
      open_.erase(open);
    }
    return why;
  }
  return "";
}

bool NumberCheck::IsDiverged(Incarnation sender, const Body& request) {
  const std::optional<Question> question = QuestionOf(request);
  constexpr float kOutOfRange = std::numeric_limits<float>::infinity();
  return !question || replies_[question->kind].Takes(sender, question->batch, kOutOfRange);
}

void NumberCheck::NoteInRange(Incarnation sender, const Body& request, ServerOutbox* out) {
  const std::optional<Question> question = QuestionOf(request);
  if (!question) return;
  NormBound& bound = replies_[question->kind];
  if (!bound.has_suspects()) return bound.NoteTaken(sender);
  (void)bound.Takes(sender, question->batch, 1);
  NoteLies("a request", "led to numbers that another worker's does not", &bound, out);
}

std::string NumberCheck::Judge(NormBound* bound, const char* what, Incarnation sender,
                               const BatchId& batch, float norm, ServerOutbox* out) {
  const bool takes = bound->Takes(sender, batch, norm);
  NoteLies(what, "had numbers that another worker does not find", bound, out);
  if (takes) return "";
  const std::optional<float> most = bound->BoundOf(sender);
  std::string why = most ? fmt::format("{}: {:g} is far above those of other batches (bound {:g})",
                                       what, norm, *most)
                         : fmt::format("{}: numbers are out of range", what);
  out->Warn({event::kNumbersRefused,
             fmt::format("the worker {:016x}, {}: {}", sender.value, NameOf(batch), why),
             {{"worker", fmt::format("{:016x}", sender.value)}}});
  return why;
}

void NumberCheck::TakeOutNext(Incarnation sender, Body* request, ServerOutbox* out) {
  auto* push = std::get_if<EmbedPush>(request);
  if (push == nullptr || !push->next) return;
  const EmbedRequest& next = *push->next;
  if (std::string why = WhyFeaturesAreAbsurd(next); !why.empty()) {
    out->NoteOffence(Offence{sender.value, next.batch, std::move(why), {}});
    push->next.reset();
  } else if (!Judge(&features_, "EmbedPush: features of the next batch", sender, next.batch,
                    LargestNorm(next.features), out)
                  .empty()) {
    push->next.reset();
  }
}

NumberCheck::Open& NumberCheck::Remember(const Key& key) {
  while (!open_.contains(key) && (open_.size() >= kMostOpen || numbers_ > kMostNumbers)) {
    const auto oldest =
        std::ranges::min_element(open_, {}, [](const auto& entry) { return entry.second.turn; });
    numbers_ -= oldest->second.log_sums.size();
    open_.erase(oldest);
  }
  Open& open = open_[key];
  open.turn = ++turn_;
  return open;
}

void NumberCheck::NoteReply(Incarnation sender, const BatchId& batch, const ActiveReply& reply) {
  Open& open = Remember({sender, batch});
  numbers_ += reply.max.size();
  numbers_ -= open.log_sums.size();
  open.log_sums = reply.max;
}

std::string NumberCheck::Bounds() const {
  std::string text;
  const auto add = [&](const char* what, const NormBound& bound) {
    const std::string basis = bound.Basis();
    if (!basis.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, basis);
  };
  add("features", features_);
  add("h", hidden_);
  add("weights", weights_);
  add("gradient", gradient_);
  add("dense", dense_);
  return text;
}

void NumberCheck::DropWorker(Incarnation worker) {
  for (NormBound* bound : {&features_, &hidden_, &weights_, &gradient_, &dense_}) {
    bound->Forget(worker);
  }
  for (NormBound& bound : replies_) bound.Forget(worker);
  std::erase_if(open_, [&](const auto& entry) {
    if (entry.first.first != worker) return false;
    numbers_ -= entry.second.log_sums.size();
    return true;
  });
}

}  // namespace dslide
