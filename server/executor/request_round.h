// One request on its way through the executors of a server: all work on it, their parts are added
// up, and an ActiveQuery with `finish` takes a second round over them.
//
//   RequestRound round(request);
//   do {
//     parts = what each executor answers to *round.request();
//   } while (round.Gather(parts) == RequestRound::Progress::kSecondRound);
//   reply = round.TakeReply();
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/wire/messages.h"

namespace dslide {

class RequestRound {
 public:
  enum class Progress {
    kReplied,
    kSecondRound,  // request() is another one now
    kOutOfRange,   // the reply has numbers beyond kMostReplied
  };

  explicit RequestRound(Body request)
      : request_(std::make_shared<const Body>(std::move(request))) {}

  // What all executors work on in this round.
  const std::shared_ptr<const Body>& request() const { return request_; }

  // Adds up the parts of this round, in executor order, at least one. An ErrorReply among them is
  // the reply.
  Progress Gather(std::vector<Body> parts);
  // The statistics of the first round; none before a second round.
  const std::optional<ActiveReply>& active() const { return active_; }
  // REQUIRES that Gather() did not ask for a second round.
  Body TakeReply() { return std::move(reply_); }

 private:
  std::shared_ptr<const Body> request_;
  std::optional<ActiveReply> active_;  // gathered in the first round
  Body reply_;
};

}  // namespace dslide
