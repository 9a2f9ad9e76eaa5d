// A queue of requests that no sender can take for itself: bounded by number and by bytes, in all
// and of one sender, and room is made at the cost of the sender with the most bytes in it.
//
// Entries are in the order of their keys, and of Add() where keys are the same.
// Invariant: at most `count` entries of at most `bytes` bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/ids.h"

namespace dslide {

template <typename T>
class FairQueue {
 public:
  struct Limits {
    size_t count = 0;
    uint64_t bytes = 0;
    uint64_t bytes_of_sender = std::numeric_limits<uint64_t>::max();
  };
  explicit FairQueue(Limits limits) : limits_(limits) {}

  // Returns what is not in the queue then: the newest entries of those senders that have more bytes
  // in it than this one has with its value; or the value itself, if that does not make room.
  [[nodiscard]] std::vector<T> Add(uint64_t key, Incarnation sender, uint64_t bytes, T value) {
    std::vector<T> dropped;
    if (BytesOf(sender) + bytes > limits_.bytes_of_sender) {
      dropped.push_back(std::move(value));
      return dropped;
    }
    while (entries_.size() >= limits_.count || bytes_ + bytes > limits_.bytes) {
      const auto greatest = Greatest();
      if (bytes > limits_.bytes || !greatest || greatest->second <= BytesOf(sender) + bytes) {
        dropped.push_back(std::move(value));
        return dropped;
      }
      auto newest = entries_.end();
      while ((--newest)->second.sender != greatest->first) {
      }
      dropped.push_back(Take(newest));
    }
    bytes_ += bytes;
    of_sender_[sender] += bytes;
    entries_.emplace(key, Entry{sender, bytes, std::move(value)});
    return dropped;
  }

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  uint64_t bytes() const { return bytes_; }
  // REQUIRES an entry.
  const T& front() const { return entries_.begin()->second.value; }
  T TakeFront() {
    DSLIDE_CHECK(!empty());
    return Take(entries_.begin());
  }
  // The first of a sender.
  std::optional<T> TakeFrontOf(Incarnation sender) {
    if (!of_sender_.contains(sender)) return std::nullopt;
    auto first = entries_.begin();
    while (first->second.sender != sender) ++first;
    return Take(first);
  }
  bool Has(Incarnation sender) const { return of_sender_.contains(sender); }
  void DropSender(Incarnation sender) {
    while (TakeFrontOf(sender)) {
    }
  }
  std::vector<T> TakeAll() {
    std::vector<T> all;
    while (!empty()) all.push_back(TakeFront());
    return all;
  }

  void CheckInvariants() const {
    DSLIDE_CHECK(entries_.size() <= limits_.count && bytes_ <= limits_.bytes);
    DSLIDE_CHECK(entries_.empty() == of_sender_.empty());
  }

 private:
  struct Entry {
    Incarnation sender;
    uint64_t bytes;
    T value;
  };
  using Entries = std::multimap<uint64_t, Entry>;

  T Take(typename Entries::iterator at) {
    Entry entry = std::move(entries_.extract(at).mapped());
    bytes_ -= entry.bytes;
    const auto of = of_sender_.find(entry.sender);
    if ((of->second -= entry.bytes) == 0) of_sender_.erase(of);
    return std::move(entry.value);
  }
  uint64_t BytesOf(Incarnation sender) const {
    const auto of = of_sender_.find(sender);
    return of == of_sender_.end() ? 0 : of->second;
  }
  // The sender with the most bytes, and these.
  std::optional<std::pair<Incarnation, uint64_t>> Greatest() const {
    std::optional<std::pair<Incarnation, uint64_t>> greatest;
    for (const auto& [sender, bytes] : of_sender_) {
      if (!greatest || bytes > greatest->second) greatest.emplace(sender, bytes);
    }
    return greatest;
  }

  Limits limits_;
  Entries entries_;
  uint64_t bytes_ = 0;
  std::map<Incarnation, uint64_t> of_sender_;  // of those that have entries, above 0
};

}  // namespace dslide
