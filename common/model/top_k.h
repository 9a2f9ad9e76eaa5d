// The k best (id, score) pairs of a stream.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "common/wire/messages.h"

namespace dslide {

class TopKHeap {
 public:
  explicit TopKHeap(uint32_t k) : k_(k) {}

  // Cheap test before Offer: whether `score` could be among the best.
  bool Accepts(float score) const {
    return score > -std::numeric_limits<float>::infinity() &&
           (heap_.size() < k_ || (k_ > 0 && score >= heap_.front().score));
  }

  // The score that a pair must have to be among the best, the lowest float while any could be.
  float least() const {
    return heap_.size() < k_ ? std::numeric_limits<float>::lowest() : heap_.front().score;
  }

  void Offer(uint32_t id, float score) {
    if (!Accepts(score)) return;
    heap_.push_back({score, id});
    std::push_heap(heap_.begin(), heap_.end(), Better);
    if (heap_.size() > k_) {
      std::pop_heap(heap_.begin(), heap_.end(), Better);
      heap_.pop_back();
    }
  }

  // Appends the pairs, best first, as one more row of *reply, and empties the heap.
  void AppendTo(TopKReply* reply) {
    std::sort(heap_.begin(), heap_.end(), Better);
    for (const Entry& entry : heap_) {
      reply->ids.push_back(entry.id);
      reply->scores.push_back(entry.score);
    }
    reply->offsets.push_back(static_cast<uint32_t>(reply->ids.size()));
    heap_.clear();
  }

 private:
  struct Entry {
    float score;
    uint32_t id;
  };
  // Ties go to the lower id, so the result does not depend on the order of the stream.
  static bool Better(const Entry& a, const Entry& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  }

  uint32_t k_;
  std::vector<Entry> heap_;  // the worst of the best at the front
};

}  // namespace dslide
