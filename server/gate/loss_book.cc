#include "server/gate/loss_book.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/run/slot_plan.h"

namespace dslide {
namespace {

// Whether log Z is in this server's part.
bool AddsLogNormaliser(const ServerSeat& seat) {
  const std::vector<bool> has = ServersWith(seat.plan, OutputSlots(seat.config.cluster));
  const auto first = std::ranges::find(has, true);
  return seat.index && first != has.end() && first - has.begin() == std::ptrdiff_t{*seat.index};
}

}  // namespace

void LossBook::OnReply(Incarnation worker, const ActiveQuery& query, const ActiveReply& reply,
                       const ServerSeat& seat) {
  Batch& batch = Begin({worker, query.batch});
  const size_t samples = std::min(query.label_totals.size(), reply.max.size());
  std::vector<float> weights(samples, 1.0f);
  if (query.weights.size() >= samples) std::copy_n(query.weights.begin(), samples, weights.begin());
  batch.part = batch.log_sum = 0;
  batch.complete = true;
  weights_ -= batch.weights.size();
  batch.weights.clear();
  if (!reply.loss.empty()) {
    for (size_t i = 0; i < samples; ++i) batch.part += double{weights[i]} * reply.loss[i];
    return;
  }
  for (size_t i = 0; i < samples; ++i) {
    if (query.label_totals[i] == 0) weights[i] = 0;
    if (weights[i] != 0) batch.part -= double{weights[i]} * reply.target_logit[i];
  }
  if (query.finish) {
    for (size_t i = 0; i < samples; ++i) {
      if (weights[i] != 0) {
        batch.log_sum += double{weights[i]} * (reply.max[i] + std::log(reply.sum_exp[i]));
      }
    }
  } else if (AddsLogNormaliser(seat)) {
    batch.complete = false;
    batch.weights = std::move(weights);
    weights_ += samples;
  }
}

void LossBook::OnPush(Incarnation worker, const GradientPush& push) {
  const auto found = batches_.find({worker, push.batch});
  if (found == batches_.end() || found->second.weights.empty()) return;
  Batch& batch = found->second;
  const size_t samples = std::min(batch.weights.size(), push.log_normaliser.size());
  batch.log_sum = 0;
  for (size_t i = 0; i < samples; ++i) {
    if (batch.weights[i] != 0) batch.log_sum += double{batch.weights[i]} * push.log_normaliser[i];
  }
  batch.complete = true;
}

std::optional<double> LossBook::PartOf(Incarnation worker, const BatchId& batch) const {
  const auto found = batches_.find({worker, batch});
  if (found == batches_.end() || !found->second.complete) return std::nullopt;
  const double part = found->second.part + found->second.log_sum;
  return std::isfinite(part) ? std::optional(part) : std::nullopt;
}

LossBook::Batch& LossBook::Begin(const Key& key) {
  if (const auto found = batches_.find(key); found != batches_.end()) return found->second;
  while (!order_.empty() && (order_.size() >= kMostBatches || weights_ > kMostWeights)) {
    Erase(batches_.find(order_.front()));
  }
  order_.push_back(key);
  Batch& batch = batches_[key];
  batch.order = std::prev(order_.end());
  return batch;
}

void LossBook::Erase(std::map<Key, Batch>::iterator at) {
  weights_ -= at->second.weights.size();
  order_.erase(at->second.order);
  batches_.erase(at);
}

void LossBook::Forget(Incarnation worker, const BatchId& batch) {
  if (const auto found = batches_.find({worker, batch}); found != batches_.end()) Erase(found);
}

void LossBook::DropWorker(Incarnation worker) {
  for (auto at = batches_.lower_bound({worker, BatchId()});
       at != batches_.end() && at->first.first == worker;) {
    Erase(at++);
  }
}

}  // namespace dslide
