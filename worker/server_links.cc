#include "worker/server_links.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "worker/events.h"

namespace dslide {

void ServerLinks::Follow(const Plan& plan, bool goes_on, const Config& config, int64_t now_us) {
  std::vector<Link> links;
  for (const PlanServer& server : plan.servers) {
    const auto known = std::find_if(links_.begin(), links_.end(), [&](const Link& link) {
      return goes_on && link.server.incarnation == server.incarnation;
    });
    Link& link = links.emplace_back();
    if (known != links_.end()) {
      link = *known;
    } else {
      link.precision = FixedPrecision(config.cluster.wire);
      link.heard_us = now_us;
    }
    link.server = server;
  }
  links_ = std::move(links);
}

std::vector<bool> ServerLinks::Unheard() const {
  std::vector<bool> unheard;
  for (const Link& link : links_) unheard.push_back(!link.heard);
  return unheard;
}

bool ServerLinks::ProbeDue(uint32_t server, int64_t now_us) {
  Link& link = links_[server];
  if (now_us - link.probed_us < kProbeUs) return false;
  link.probed_us = now_us;
  return true;
}

void ServerLinks::Judge(uint32_t server, bool useful, int64_t now_us) {
  int64_t& since_us = links_[server].useless_since_us;
  if (useful) {
    since_us = 0;
    links_[server].useful = std::min(kProof, links_[server].useful + 1);
  } else if (since_us == 0) {
    since_us = now_us;
  }
}

void ServerLinks::Measure(const AwaitedReply& request, size_t kind, size_t bytes,
                          int64_t service_us, const Config& config, int64_t now_us) {
  Link& link = links_[request.server];
  link.meter.Note(now_us, kind, now_us - request.sent_us, service_us, bytes);
  ChoosePrecision(config, &link);
}

bool ServerLinks::AdaptsPrecision(const Config& config) {
  return config.cluster.wire == Wire::kAuto && !IsSynchronous(config.train);
}

// Int8 where the bytes of bf16 keep the link busy for half of the time and more.
void ServerLinks::ChoosePrecision(const Config& config, Link* link) {
  constexpr double kBusy = 0.5;
  constexpr double kIdle = 0.08;  // of int8; bf16 has twice its bytes, and estimates vary
  if (!AdaptsPrecision(config)) return;
  if (link->windows == link->meter.windows()) return;
  link->windows = link->meter.windows();
  if (link->meter.busy() > kBusy) link->precision = WirePrecision::kInt8;
  if (link->meter.busy() < kIdle) link->precision = WirePrecision::kBf16;
}

void ServerLinks::Describe(Heartbeat* beat) const {
  for (const Link& link : links_) {
    const auto bits = static_cast<uint64_t>(link.meter.bits_per_second());
    if (bits > 0 && (beat->bits_per_second == 0 || bits < beat->bits_per_second)) {
      beat->bits_per_second = bits;
    }
    beat->round_trip_us =
        std::max(beat->round_trip_us, static_cast<uint32_t>(link.meter.round_trip_us()));
    beat->int8_links += link.precision == WirePrecision::kInt8;
  }
}

std::vector<int64_t> ServerLinks::SilencesUs(int64_t silence_us, int64_t batch_us) const {
  std::vector<int64_t> silences_us(links_.size(), silence_us);
  for (size_t s = 0; s < links_.size(); ++s) {
    if (links_[s].useful == kProof) continue;
    double slowest_us = 0;
    bool has_others = false;
    for (size_t other = 0; other < links_.size(); ++other) {
      if (other == s || links_[other].useful < kKnown) continue;
      slowest_us = std::max(slowest_us, links_[other].meter.round_trip_us());
      has_others = true;
    }
    if (!has_others) continue;  // nothing tells how long an answer takes here
    const int64_t least_us = links_[s].heard ? kFirstSilenceUs : kConnectUs;
    const auto usual_us = static_cast<int64_t>(kFirstRoundTrips * slowest_us);
    silences_us[s] = std::min(silence_us, std::max({least_us, usual_us, kSlowBatches * batch_us}));
  }
  return silences_us;
}

// [servers] A server that is only slow answers something. In synchronous training the first
// requests of a batch wait at all servers for the steps before it, so that they say nothing of a
// server.
std::vector<ServerLinks::Silence> ServerLinks::Silences(const FlightTable& flights, bool waits,
                                                        bool synchronous, int64_t silence_us,
                                                        int64_t batch_us, int64_t now_us) const {
  const std::vector<int64_t> silences_us = SilencesUs(silence_us, batch_us);
  std::set<uint32_t> asked_servers;  // one that is asked nothing gives no answers of use
  for (const auto& [sequence, awaited] : flights.awaited()) asked_servers.insert(awaited.server);
  std::vector<Silence> silent;
  for (size_t s = 0; s < links_.size(); ++s) {
    const int64_t since_us = links_[s].useless_since_us;
    const int64_t most_us = std::min(silences_us[s], silence_us / kUselessShare);
    const bool asked =
        asked_servers.contains(static_cast<uint32_t>(s)) || (waits && links_[s].useful < kProof);
    const bool useless = since_us > 0 && now_us - since_us >= most_us && asked;
    silent.push_back(useless ? Silence::kUseless : Silence::kNone);
  }
  for (const auto& [sequence, awaited] : flights.awaited()) {
    const auto long_ago = [&](int64_t since_us) {
      return now_us - since_us >= silences_us[awaited.server];
    };
    const Link& link = links_[awaited.server];
    // A new server may have been asked nothing for a while.
    const bool asked = link.useful == kProof || awaited.repeats > 0 || long_ago(awaited.sent_us);
    if (!asked || !long_ago(link.heard_us)) continue;
    const Flight& flight = flights.At(awaited.flight);
    const int64_t others_us = flight.first_reply_us;
    const bool may_wait = synchronous && !flight.answered && !awaited.probe;
    Silence& at = silent[awaited.server];
    if (at == Silence::kUseless) continue;
    if (others_us > 0 && long_ago(others_us)) at = Silence::kOthersAnswer;
    if (at == Silence::kNone && awaited.repeats > 0 && !may_wait) at = Silence::kUnanswered;
  }
  return silent;
}

const char* ServerLinks::TextOf(Silence silence) {
  switch (silence) {
    case Silence::kNone:
      return "answers";
    case Silence::kUnanswered:
      return "does not answer";
    case Silence::kOthersAnswer:
      return "does not answer, other servers do";
    case Silence::kUseless:
      return "gives answers that do not fit what it is asked";
  }
  return "";
}

void ServerLinks::TellSilent(const FlightTable& flights, bool waits, const Config& config,
                             int64_t now_us, Heartbeat* beat, std::vector<Event>* notices) {
  const int64_t silence_us = int64_t{2000} * config.cluster.request_timeout_ms;
  const std::vector<Silence> silent = Silences(flights, waits, IsSynchronous(config.train),
                                               silence_us, beat->longest_batch_us, now_us);
  for (size_t s = 0; s < silent.size(); ++s) {
    const PlanServer& server = links_[s].server;
    if (silent[s] == Silence::kOthersAnswer || silent[s] == Silence::kUseless)
      beat->silent_servers.push_back(server.incarnation.value);
    if (silent[s] != links_[s].told && silent[s] != Silence::kNone)
      notices->push_back(
          {event::kServerSilent,
           fmt::format("{} at {} {}", server.name, server.address, TextOf(silent[s])),
           {{"server", server.name}, {"why", std::string(TextOf(silent[s]))}}});
    links_[s].told = silent[s];
  }
}

}  // namespace dslide
