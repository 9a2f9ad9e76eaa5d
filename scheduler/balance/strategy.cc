#include "scheduler/balance/strategy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "common/base/plural.h"
#include "common/math/median.h"

namespace dslide {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// Two significant digits, and all digits before the point.
std::string Figure(double value) {
  return value < 10 ? fmt::format("{:.2g}", value) : fmt::format("{:.0f}", value);
}

bool Changed(double before, double now, double least) {
  return std::abs(now - before) > std::max(least, Strategy::kChange * before);
}

// Median of the known speeds of a core; 0: none is known.
double MedianSpeed(const std::vector<WorkerMeasure>& workers) {
  std::vector<double> speeds;
  for (const WorkerMeasure& w : workers) {
    if (w.batches_per_second > 0) speeds.push_back(w.batches_per_second / std::max(1u, w.cores));
  }
  return speeds.empty() ? 0 : Median(std::move(speeds));
}

// Seconds that a batch's bytes take on one of the worker's links to `servers` servers.
double TransferSeconds(const WorkerMeasure& w, size_t servers) {
  if (w.bits_per_second == 0 || servers == 0) return 0;
  return 8 * w.bytes_per_batch / static_cast<double>(servers) /
         static_cast<double>(w.bits_per_second);
}

// Shares `rate` batches per second: no worker gets more than its link carries, and all others get
// the same (max-min fair).
std::vector<double> ShareRate(double rate, const std::vector<double>& links) {
  std::vector<size_t> order(links.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return links[a] < links[b]; });
  std::vector<double> shares(links.size());
  for (size_t i = 0; i < order.size(); ++i) {
    shares[order[i]] = std::min(links[order[i]], rate / static_cast<double>(order.size() - i));
    rate -= shares[order[i]];
  }
  return shares;
}

// Batches of a lease while many batches are left in the pass.
uint32_t FullLease(const WorkerMeasure& w, uint32_t unit_batches) {
  const double batches = w.batches_per_second > 0
                             ? std::round(w.batches_per_second * Strategy::kLeaseSeconds)
                             : Strategy::kFirstLease;
  return static_cast<uint32_t>(std::clamp<double>(batches, 1, std::max(1u, unit_batches)));
}

// Half of the worker's share of the batches left, if that is less.
uint32_t LastLeases(uint32_t lease, const WorkerMeasure& w, double all_speeds, uint64_t left) {
  if (w.batches_per_second <= 0) return lease;
  const double part = static_cast<double>(left) * w.batches_per_second / all_speeds;
  return static_cast<uint32_t>(std::clamp<double>(std::ceil(part / 2), 1, lease));
}

// Little's law, with a few more batches for slow servers: the batches of a worker are at different
// stages, and every server should have one.
uint32_t InFlightCap(double rate, double latency_s) {
  const double batches = std::ceil(Strategy::kSlack * rate * latency_s + 0.5);
  return static_cast<uint32_t>(
      std::clamp<double>(batches, Strategy::kFewestInFlight, Strategy::kMostInFlight));
}

// Why the worker is a straggler, empty if it is not.
std::string WhyStraggler(const WorkerMeasure& w, double median) {
  const double cores = std::max(1u, w.cores);
  if (w.batches_per_second > 0 && w.batches_per_second / cores < Strategy::kSlowest * median) {
    return fmt::format("{} batches/s per core where the median is {}",
                       Figure(w.batches_per_second / cores), Figure(median));
  }
  const double speed = w.batches_per_second > 0 ? w.batches_per_second : median * cores;
  if (w.lease_size == 0 || speed <= 0) return "";
  const double expected_s = std::max(Strategy::kLeastExpectedS, w.lease_size / speed);
  if (w.lease_age_s <= Strategy::kLatest * expected_s) return "";
  return fmt::format("{} leased {:.0f} s ago, expected to take {:.0f} s",
                     Plural(w.lease_size, "batch", "batches"), w.lease_age_s, expected_s);
}

std::string Reason(const WorkerMeasure& w, uint32_t lease, uint32_t in_flight_cap,
                   const std::string& straggler) {
  std::string text = fmt::format("{}: {} per lease", w.name, Plural(lease, "batch", "batches"));
  text += w.batches_per_second > 0 ? fmt::format(" ({} batches/s)", Figure(w.batches_per_second))
                                   : " (speed not known yet)";
  if (in_flight_cap > 0) {
    text += fmt::format(", at most {} in flight (round trip {} ms", in_flight_cap,
                        Figure(w.round_trip_us / 1000.0));
    if (w.bits_per_second > 0) {
      text += fmt::format(", {} Mbit/s", Figure(static_cast<double>(w.bits_per_second) / 1e6));
    }
    text += ")";
  }
  if (!straggler.empty()) text += fmt::format("; holds others up: {}", straggler);
  return text;
}

template <typename Value, typename Node>
void ForgetOthers(std::map<std::string, Value>& logged, const std::vector<Node>& nodes) {
  std::set<std::string> names;
  for (const Node& node : nodes) names.insert(node.name);
  std::erase_if(logged, [&](const auto& entry) { return !names.contains(entry.first); });
}

}  // namespace

std::vector<ServerDecision> Strategy::DecideServers(const std::vector<ServerMeasure>& servers) {
  ForgetOthers(servers_, servers);
  double capacity = 0;
  for (const ServerMeasure& s : servers) capacity += s.leaving ? 0 : s.capacity;
  std::vector<ServerDecision> decisions;
  for (const ServerMeasure& s : servers) {
    ServerDecision decision{.name = s.name};
    if (s.leaving) {
      decision.reason = fmt::format("{}: leaving, its slots go to the others", s.name);
    } else {
      decision.share = s.capacity / capacity;
      decision.reason = fmt::format("{}: gets {:.0f} % of the load, its share of the capacity",
                                    s.name, 100 * decision.share);
    }
    const auto [logged, first] = servers_.try_emplace(s.name, decision.share);
    decision.log = first || Changed(logged->second, decision.share, 0);
    if (decision.log) logged->second = decision.share;
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

WorkerDecision Strategy::DecideWorker(const WorkerMeasure& worker, const RunMeasure& run,
                                      const Peers& peers, uint32_t in_flight_cap) {
  const uint32_t lease = FullLease(worker, run.unit_batches);
  const std::string straggler = WhyStraggler(worker, peers.median_speed);
  WorkerDecision decision{
      .name = worker.name,
      .lease_batches = LastLeases(lease, worker, peers.all_speeds, run.batches_left),
      .in_flight_cap = in_flight_cap,
      .straggler = !straggler.empty()};
  decision.reason = Reason(worker, lease, in_flight_cap, straggler);
  const Logged now{lease, in_flight_cap, decision.straggler};
  const auto [logged, first] = workers_.try_emplace(worker.name, now);
  decision.log = first || Changed(logged->second.lease_batches, lease, 1) ||
                 Changed(logged->second.in_flight_cap, in_flight_cap, 1) ||
                 logged->second.straggler != decision.straggler;
  if (decision.log) logged->second = now;
  return decision;
}

Decisions Strategy::Decide(const std::vector<WorkerMeasure>& workers,
                           const std::vector<ServerMeasure>& servers, const RunMeasure& run) {
  ForgetOthers(workers_, workers);
  Decisions decisions;
  decisions.servers = DecideServers(servers);

  const auto staying = static_cast<size_t>(std::count_if(
      servers.begin(), servers.end(), [](const ServerMeasure& s) { return !s.leaving; }));
  Peers peers{MedianSpeed(workers), 0};
  std::vector<double> transfers_s, links;  // [workers]; the latter in batches a second
  for (const WorkerMeasure& w : workers) {
    peers.all_speeds += w.batches_per_second;
    transfers_s.push_back(TransferSeconds(w, staying));
    links.push_back(transfers_s.back() > 0 ? 1 / transfers_s.back() : kUnlimited);
  }
  const bool rate_known = run.seconds_per_batch > 0;
  const std::vector<double> rates = ShareRate(rate_known ? 1 / run.seconds_per_batch : 0, links);
  for (size_t i = 0; i < workers.size(); ++i) {
    const double latency_s = kRoundTrips * workers[i].round_trip_us / 1e6 + transfers_s[i] +
                             kQueue * run.seconds_per_batch;
    const bool known = rate_known && workers[i].round_trip_us > 0;
    decisions.workers.push_back(
        DecideWorker(workers[i], run, peers, known ? InFlightCap(rates[i], latency_s) : 0));
  }
  return decisions;
}

}  // namespace dslide
