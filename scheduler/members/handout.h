// Members that are to be sent something large, a few at a time, so that others have their turn
// meanwhile.
#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "common/base/ids.h"

namespace dslide {

// Pure; used by one thread.
class Handout {
 public:
  static constexpr size_t kAtOnce = 32;

  // All of them wait from now on, in this order. Who has waited before does not any more.
  void Begin(std::vector<Incarnation> members) {
    order_.assign(members.begin(), members.end());
    waiting_ = {members.begin(), members.end()};
  }
  // Those whose turn it is: they wait no more.
  std::vector<Incarnation> Next() {
    std::vector<Incarnation> next;
    while (!order_.empty() && next.size() < kAtOnce) {
      if (waiting_.erase(order_.front()) > 0) next.push_back(order_.front());
      order_.pop_front();
    }
    return next;
  }
  // It has it already, by another way.
  void Skip(Incarnation member) { waiting_.erase(member); }
  bool Waits(Incarnation member) const { return waiting_.contains(member); }
  bool done() const { return waiting_.empty(); }

 private:
  std::deque<Incarnation> order_;
  std::set<Incarnation> waiting_;  // of order_
};

}  // namespace dslide
