#include "tools/dslide/doctor/link.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/process.h"
#include "common/net/socket.h"
#include "common/wire/messages.h"

namespace dslide {
namespace {

constexpr int kShortTrips = 5;
constexpr size_t kProbeBytes = size_t{64} << 10;  // shows whether more can be asked of the link
constexpr int64_t kWorthUs = 2'000'000;           // the longest message may take as long
constexpr int64_t kAnswerMs = 3000;
constexpr int64_t kSlowAnswerMs = 20'000;  // of a longer message: 64 KiB at 26 kbit/s
constexpr double kSlowDelayMs = 300;
constexpr double kSlowMbit = 10;

// Asks one server, one message after the other.
class LinkProbe {
 public:
  LinkProbe(DealerSocket socket, Incarnation self) : socket_(std::move(socket)), self_(self) {
    poller_.Add(socket_);
  }

  // The time from a request with so much padding to its answer, in microseconds; nullopt: none
  // came.
  std::optional<int64_t> RoundTrip(size_t padding, int64_t patience_ms) {
    Bytes bytes = Encode({{RunId(), self_, ++sequence_, 0, 0}, StatusRequest{Bytes(padding)}},
                         WirePrecision::kFp32);
    sent_bytes_ = bytes.size();
    const int64_t began = MonotonicMicros();
    if (!socket_.Send(std::move(bytes))) return std::nullopt;
    while (MonotonicMicros() - began < 1000 * patience_ms) {
      poller_.Wait(100);
      while (const auto received = socket_.Receive()) {
        const Result<Message> answer = Decode(*received);
        if (answer.ok() && answer->envelope.reply_to == sequence_) return MonotonicMicros() - began;
      }
      (void)socket_.TakeFailure();  // dials again
    }
    return std::nullopt;
  }
  // Of the last request.
  uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  DealerSocket socket_;
  Incarnation self_;
  Poller poller_;
  uint64_t sequence_ = 0;
  uint64_t sent_bytes_ = 0;
};

std::string SpeedText(double bits_per_second) {
  return bits_per_second < 1e9 ? fmt::format("{:.3g} Mbit/s", bits_per_second / 1e6)
                               : fmt::format("{:.3g} Gbit/s", bits_per_second / 1e9);
}

}  // namespace

LinkFacts LinkOf(int64_t short_us, uint64_t short_bytes, int64_t long_us, uint64_t long_bytes) {
  const auto more_us = static_cast<double>(std::max<int64_t>(long_us - short_us, 1));
  return {static_cast<double>(short_us) / 1000,
          8e6 * static_cast<double>(long_bytes - short_bytes) / more_us};
}

Result<LinkFacts> MeasureLink(const SchedulerAccess& access, const std::string& address,
                              const std::optional<PublicKey>& key) {
  NetContext context;
  std::optional<CurvePeer> keys;
  if (access.curve && key) keys = CurvePeer{access.curve->own, *key};
  Result<DealerSocket> socket = DealerSocket::Connect(context, address, keys);
  DSLIDE_RETURN_IF_ERROR(socket);
  LinkProbe probe(*std::move(socket), DrawIncarnation(access.own()));
  const Error silent = TryLater(fmt::format("{} does not answer", address));
  // The first one has the handshake in it.
  if (!probe.RoundTrip(0, kAnswerMs)) return silent;
  std::optional<int64_t> short_us;
  for (int i = 0; i < kShortTrips; ++i) {
    const auto took = probe.RoundTrip(0, kAnswerMs);
    if (!took) return silent;
    short_us = std::min(*took, short_us.value_or(*took));
  }
  const uint64_t short_bytes = probe.sent_bytes();
  auto long_us = probe.RoundTrip(kProbeBytes, kSlowAnswerMs);
  if (!long_us) return silent;
  const double us_of_most = static_cast<double>(std::max<int64_t>(*long_us - *short_us, 0)) *
                            (StatusRequest::kMaxPadding / kProbeBytes);
  uint64_t long_bytes = probe.sent_bytes();
  if (us_of_most < kWorthUs) {
    const auto longest_us = probe.RoundTrip(StatusRequest::kMaxPadding, kSlowAnswerMs);
    if (!longest_us) return silent;
    long_us = longest_us;
    long_bytes = probe.sent_bytes();
  }
  return LinkOf(*short_us, short_bytes, *long_us, long_bytes);
}

void JudgeLink(const std::string& name, const LinkFacts& link, Findings* findings) {
  const std::string check = name + ": link";
  const std::string text =
      fmt::format("delay {:.2g} ms, {} to it", link.delay_ms, SpeedText(link.bits_per_second));
  if (link.delay_ms > kSlowDelayMs) {
    findings->Note(check, text, "far away: see \"Slow links\" in configs/README.md");
  } else if (link.bits_per_second < 1e6 * kSlowMbit) {
    findings->Note(check, text,
                   "slow: training sends about 1 KB for each sample there; see \"Slow links\" in "
                   "configs/README.md, or use a machine nearer to it");
  } else {
    findings->Fine(check, text);
  }
}

}  // namespace dslide
