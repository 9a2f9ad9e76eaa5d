#include "tools/dslide/plan/queueing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

template <typename Do>
void ForEachVisit(const Chain& chain, const Do& take) {
  for (const Stage& stage : chain.stages) {
    for (const Visit& visit : stage.before) take(visit);
    for (const auto& branch : stage.branches) {
      for (const Visit& visit : branch) take(visit);
    }
    for (const Visit& visit : stage.after) take(visit);
  }
}

class Solver {
 public:
  explicit Solver(const Network& network)
      : network_(network),
        slow_(network.stations.size(), 1.0),
        seconds_(network.chains.size()),
        queue_(network.chains.size()) {
    const size_t stations = network.stations.size();
    flow_.rates.resize(network.chains.size());
    flow_.elapsed.resize(network.chains.size());
    flow_.station_busy.resize(stations);
    flow_.processor_busy.resize(network.processors.size());
    for (size_t c = 0; c < network.chains.size(); ++c) {
      seconds_[c].resize(stations);
      queue_[c].resize(stations);
      flow_.stretch.emplace_back(stations, 1.0);
      ForEachVisit(network.chains[c],
                   [&](const Visit& visit) { seconds_[c][visit.station] += visit.seconds; });
    }
  }

  Flow Solve() {
    constexpr int kMostTurns = 2000;
    constexpr double kEnough = 1e-7;  // change of a rate
    for (int turn = 0; turn < kMostTurns; ++turn) {
      const double before = flow_.rate();
      const double moved = Turn();
      const double change = std::abs(flow_.rate() - before);
      if (turn > 10 && change <= kEnough * flow_.rate() && moved <= 1e-5) break;
    }
    return std::move(flow_);
  }

 private:
  // Returns the greatest change of a slow-down.
  double Turn() {
    std::vector<double> all(slow_.size());
    for (const auto& of_chain : queue_) {
      for (size_t s = 0; s < all.size(); ++s) all[s] += of_chain[s];
    }
    for (size_t c = 0; c < network_.chains.size(); ++c) {
      const Chain& chain = network_.chains[c];
      std::vector<double>& stretch = flow_.stretch[c];
      for (size_t s = 0; s < all.size(); ++s) {
        stretch[s] = (1 + std::max(0.0, all[s] - queue_[c][s] / chain.in_flight)) * slow_[s];
      }
      flow_.elapsed[c] = Elapsed(chain, stretch);
      DSLIDE_CHECK(flow_.elapsed[c] > 0);
      flow_.rates[c] = chain.in_flight / flow_.elapsed[c];
      for (size_t s = 0; s < all.size(); ++s) {
        const double now = flow_.rates[c] * seconds_[c][s] * stretch[s];
        queue_[c][s] += kStep * (now - queue_[c][s]);
      }
    }
    return ShareProcessors();
  }

  static double Elapsed(const Chain& chain, const std::vector<double>& stretch) {
    const auto length = [&](const std::vector<Visit>& visits) {
      return std::accumulate(visits.begin(), visits.end(), 0.0, [&](double sum, const Visit& v) {
        return sum + v.seconds * stretch[v.station];
      });
    };
    double sum = 0;
    for (const Stage& stage : chain.stages) {
      double slowest = 0;
      for (const auto& branch : stage.branches) slowest = std::max(slowest, length(branch));
      sum += length(stage.before) + slowest + length(stage.after);
    }
    return sum;
  }

  double ShareProcessors() {
    std::vector<double> runnable, used;  // [processors] threads that can run, cores at work
    for (const Processor& processor : network_.processors) {
      runnable.push_back(processor.busy_cores);
      used.push_back(processor.busy_cores);
    }
    for (size_t s = 0; s < slow_.size(); ++s) {
      double load = 0;
      for (size_t c = 0; c < seconds_.size(); ++c) load += flow_.rates[c] * seconds_[c][s];
      const Station& station = network_.stations[s];
      flow_.station_busy[s] = std::min(1.0, load * slow_[s]);
      if (station.processor == kNoProcessor) continue;
      runnable[station.processor] += flow_.station_busy[s] * station.threads;
      used[station.processor] += load * station.threads;
    }
    for (size_t p = 0; p < used.size(); ++p) {
      flow_.processor_busy[p] = std::min(1.0, used[p] / network_.processors[p].cores);
    }
    double most = 0;
    for (size_t s = 0; s < slow_.size(); ++s) {
      const Station& station = network_.stations[s];
      if (station.processor == kNoProcessor) continue;
      const double others = runnable[station.processor] - flow_.station_busy[s] * station.threads;
      const double now =
          std::max(1.0, (station.threads + others) / network_.processors[station.processor].cores);
      most = std::max(most, std::abs(now - slow_[s]));
      slow_[s] += kStep * (now - slow_[s]);
    }
    return most;
  }

  static constexpr double kStep = 0.3;  // of the way to the next values, so that they settle

  const Network& network_;
  std::vector<double> slow_;                  // [stations] by threads that share the cores
  std::vector<std::vector<double>> seconds_;  // [chains][stations] of a batch
  std::vector<std::vector<double>> queue_;    // [chains][stations] batches there, on average
  Flow flow_;
};

}  // namespace

double Flow::rate() const { return std::accumulate(rates.begin(), rates.end(), 0.0); }

Flow SolveFlow(const Network& network) { return Solver(network).Solve(); }

}  // namespace dslide
