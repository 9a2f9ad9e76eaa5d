// A user's command as an observer of a running cluster: it joins, asks the scheduler, and leaves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/security/member_key.h"
#include "common/wire/messages.h"

namespace dslide {

// Used by one thread.
class Observer {
 public:
  static constexpr int64_t kAnswerMs = 10'000;

  // Joins the run of a scheduler. Errors: kBadInput for an invalid address, an
  // unknown host or a server's address; kTryLater without an answer within `answer_ms`; kFailed
  // with the scheduler's text if it refuses.
  static Result<Observer> Join(const SchedulerAccess& scheduler, const std::string& name,
                               int64_t answer_ms = kAnswerMs);
  Observer(Observer&&) noexcept;
  ~Observer();

  // Sends a request and returns its reply; other messages are dropped. Errors: kTryLater without a
  // reply within `timeout_ms`, kFailed if the scheduler refuses or the run ends.
  Result<Body> Ask(const Body& request, int64_t timeout_ms = kAnswerMs);

  // The scheduler's status as JSON (scheduler/status/status.h).
  Result<std::string> StatusJson();

  // Returns after `ms`. Errors: kFailed if the run ended meanwhile.
  Status Wait(int64_t ms);

 private:
  struct Impl;
  explicit Observer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
