// How many messages each connection may bring the scheduler: a token bucket (as RFC 2697's) for
// each.
//
// ZeroMQ takes messages from all connections in turn, so one that floods gets no more turns than
// another one. What it gets beyond its budget is dropped unread, which costs a tenth of the
// cheapest answer. Messages that cost more than others, or should not have come, take more of the
// budget.
//
// A connection of no member has a small budget, as much as joining takes. Pure: time is passed in.
#pragma once

#include <cstdint>
#include <map>

#include "common/base/ids.h"

namespace dslide {

class MessageBudget {
 public:
  // Tokens; a message takes one when it comes.
  static constexpr double kOfMember = 4000;   // a second; the busiest worker that was measured: 400
  static constexpr double kOfStranger = 40;   // a second
  static constexpr double kBurstSeconds = 2;  // what a silent connection saves up
  static constexpr double kRefused = 20;      // a message that is refused, besides
  static constexpr double kMostOfStranger = 1;  // besides
  static constexpr double kByte = 1.0 / (16 << 10);
  static constexpr double kStatus = 1000;          // an answer with the run's status: 4 a second
  static constexpr size_t kMostBudgets = 1 << 16;  // connections that are remembered

  // A message has come. False: the connection's budget is used up.
  bool Take(const PeerId& from, int64_t now_ms);
  // The message cost more than one token.
  void Charge(const PeerId& from, double tokens);
  // A member speaks at this connection. Its budget is a member's from now on.
  void Promote(const PeerId& from);
  // Forgets connections that have said nothing for so long that their budgets are full.
  void Trim(int64_t now_ms);

  size_t size() const { return budgets_.size(); }

 private:
  struct Budget {
    double rate = kOfStranger;
    double tokens = kOfStranger * kBurstSeconds;
    int64_t filled_ms = 0;

    void Fill(int64_t now_ms);
  };
  std::map<PeerId, Budget> budgets_;
};

}  // namespace dslide
