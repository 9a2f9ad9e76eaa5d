// What a worker knows of its links to the servers of the plan: their speed, the precision that
// their messages have, and which servers are silent.
//
// Pure: times are passed in, in microseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/log/event.h"
#include "common/wire/messages.h"
#include "worker/flight_table.h"
#include "worker/link_meter.h"

namespace dslide {

class ServerLinks {
 public:
  // Takes up a plan. `goes_on`: it has the generation of the one before, so what is known of
  // servers that both have is kept.
  void Follow(const Plan& plan, bool goes_on, const Config& config, int64_t now_us);
  size_t size() const { return links_.size(); }

  // Whether each link chooses its precision. In synchronous training all links are alike, or the
  // result would depend on who trained a batch.
  static bool AdaptsPrecision(const Config& config);
  WirePrecision precision(uint32_t server) const { return links_[server].precision; }
  // A reply came, whatever it says.
  void Heard(uint32_t server, int64_t now_us) {
    links_[server].heard_us = now_us;
    links_[server].heard = true;
  }
  // [servers] Those that have answered nothing yet, since the plan named them first.
  std::vector<bool> Unheard() const;
  // Whether the link is to be probed now, by a message of few bytes: every kProbeUs.
  bool ProbeDue(uint32_t server, int64_t now_us);
  // Whether the reply was of use: it fitted its request, and was not a refusal.
  void Judge(uint32_t server, bool useful, int64_t now_us);
  // Measures the link by a request of kind `kind` (BatchFlight::Stage or kProbe) and its reply,
  // `bytes` in all, `service_us` of the time at the server; then chooses the precision.
  static constexpr size_t kProbe = LinkMeter::kKinds - 1;
  void Measure(const AwaitedReply& request, size_t kind, size_t bytes, int64_t service_us,
               const Config& config, int64_t now_us);

  // Reports the slowest link, and how many links use int8.
  void Describe(Heartbeat* beat) const;
  // Adds the silent servers to `beat`, and an event to `notices` for each that fell silent. A
  // server is silent when it has answered nothing for twice cluster.request_timeout_ms, or nothing
  // of use for a fifth of it. For a server that has given fewer than kProof answers of use, the
  // time is kFirstRoundTrips round trips of the slowest other link or kSlowBatches times the
  // longest batch, and at least kFirstSilenceUs, or kConnectUs before its first answer. The
  // scheduler is told of a server without answers only while others answer; when none answers, the
  // worker's own network may be at fault. `waits`: failed batches are set aside, so that a new
  // server which refuses everything is asked nothing for a while.
  void TellSilent(const FlightTable& flights, bool waits, const Config& config, int64_t now_us,
                  Heartbeat* beat, std::vector<Event>* notices);

 private:
  static constexpr int64_t kProbeUs = 2'000'000;  // half a window of the meter
  static constexpr uint32_t kProof = 500;
  static constexpr uint32_t kKnown = 20;  // answers of use, whose round trips say something
  static constexpr int64_t kFirstRoundTrips = 20;
  static constexpr int64_t kSlowBatches = 4;
  static constexpr int64_t kFirstSilenceUs = 1'000'000;
  static constexpr int64_t kConnectUs = 5'000'000;  // until the first answer

  enum class Silence {
    kNone,
    kUnanswered,    // nor has another server in this stage of a batch
    kOthersAnswer,  // other servers have
    kUseless,       // answers come, and do not fit
  };
  static constexpr int64_t kUselessShare = 10;  // of the time until a server is silent
  static const char* TextOf(Silence silence);   // "does not answer"
  struct Link {
    PlanServer server;
    LinkMeter meter;
    WirePrecision precision = WirePrecision::kBf16;
    uint64_t windows = 0;  // of the meter that were acted on
    bool heard = false;
    int64_t heard_us = 0;          // last
    int64_t probed_us = 0;         // last
    int64_t useless_since_us = 0;  // its replies are of no use since then; 0: they are
    uint32_t useful = 0;           // replies, kProof at most
    Silence told = Silence::kNone;
  };
  static void ChoosePrecision(const Config& config, Link* link);
  // [servers]
  std::vector<int64_t> SilencesUs(int64_t silence_us, int64_t batch_us) const;
  std::vector<Silence> Silences(const FlightTable& flights, bool waits, bool synchronous,
                                int64_t silence_us, int64_t batch_us, int64_t now_us) const;

  std::vector<Link> links_;  // [plan's servers]
};

}  // namespace dslide
