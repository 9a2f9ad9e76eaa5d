// Who may begin a batch at this server: a worker with the scheduler's ticket for it
// (common/run/tickets.h). Nothing is kept of requests that have none, but when the last report of
// their sender was.
//
// Pure; owned by the network thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/wire/messages.h"
#include "server/base/outbox.h"
#include "server/base/seat.h"

namespace dslide {

class TicketGate {
 public:
  static constexpr int64_t kReportGapUs = 1'000'000;  // between reports of one worker
  static constexpr size_t kMostReported = 256;        // workers whose last report is remembered

  // Whether a request begins a batch by itself; what its EmbedPush.next begins is not meant.
  static bool Begins(const Body& request);

  // Why a request may not begin what it begins; empty: it may, or begins nothing. A push may go on
  // without the next batch, which is taken out. A ticket that does not fit is reported to the
  // scheduler.
  std::string Check(Incarnation worker, Body* request, const ServerSeat& seat, int64_t now_us,
                    ServerOutbox* out);

 private:
  struct Claim;
  static std::optional<Claim> ClaimOf(const EmbedRequest& embed);
  static std::optional<Claim> ClaimOf(const Body& request);
  std::string WhyRefused(Incarnation worker, const Claim& claim, const ServerSeat& seat,
                         int64_t now_us, ServerOutbox* out);
  void Report(Incarnation worker, const Claim& claim, int64_t now_us, ServerOutbox* out);

  std::map<Incarnation, int64_t> reported_us_;
};

}  // namespace dslide
