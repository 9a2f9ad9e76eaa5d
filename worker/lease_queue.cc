#include "worker/lease_queue.h"

#include <utility>

namespace dslide {
namespace {

constexpr int64_t kAsideUs = 300'000;  // the first time
constexpr int64_t kAsideFactor = 4;    // longer after each further failure
constexpr uint32_t kMostFailures = 5;  // 25 s in all, less than a lease lasts

int64_t AsideUs(uint32_t failures) {
  int64_t aside_us = kAsideUs;
  for (uint32_t i = 1; i < failures; ++i) aside_us *= kAsideFactor;
  return aside_us;
}

}  // namespace

void LeaseQueue::Add(LeasedBatch batch) {
  const uint64_t number = batch.number;
  queue_.emplace(number, std::move(batch));
}

LeasedBatch LeaseQueue::Pop() { return std::move(queue_.extract(queue_.begin()).mapped()); }

bool LeaseQueue::SetAside(LeasedBatch batch, int64_t now_us) {
  if (++batch.failures >= kMostFailures) return false;
  const int64_t until_us = now_us + AsideUs(batch.failures);
  set_aside_.emplace(until_us, std::move(batch));
  return true;
}

void LeaseQueue::ReturnDue(int64_t now_us) {
  while (!set_aside_.empty() && set_aside_.begin()->first <= now_us) {
    Add(std::move(set_aside_.extract(set_aside_.begin()).mapped()));
  }
}

void LeaseQueue::ReturnAll() {
  for (auto& [until_us, batch] : set_aside_) Add(std::move(batch));
  set_aside_.clear();
}

void LeaseQueue::Clear() {
  queue_.clear();
  set_aside_.clear();
}

void LeaseQueue::Answered(int64_t not_before_ms) {
  asked_ms_.reset();
  not_before_ms_ = not_before_ms;
}

void LeaseQueue::ForgetLostRequest(int64_t now_ms, int64_t timeout_ms) {
  if (asked_ms_ && now_ms - *asked_ms_ >= timeout_ms) asked_ms_.reset();
}

}  // namespace dslide
