// How fast work goes round in a closed network of queues: batches in flight that visit threads and
// links, of which each serves one batch after another.
//
// Mean value analysis with Schweitzer's approximation (Reiser, Lavenberg, JACM 27(2), 1980;
// Schweitzer, 1979): a batch that arrives finds the queue that the other batches leave on average.
// Stages whose branches run side by side end with the slowest branch. Threads that share the cores
// of a machine are slowed down by those that can run at the same time.
//
// Pure. Times are in seconds.
#pragma once

#include <cstdint>
#include <vector>

namespace dslide {

struct Processor {
  double cores = 1;
  double busy_cores = 0;  // that other work takes, on average
};

constexpr uint32_t kNoProcessor = UINT32_MAX;  // a link

struct Station {
  uint32_t processor = kNoProcessor;
  uint32_t threads = 1;  // that work on a visit side by side
};

struct Visit {
  uint32_t station = 0;
  double seconds = 0;  // while nothing else runs
};

// The visits of `before` one after another, then every branch at once, then `after`.
struct Stage {
  std::vector<Visit> before;
  std::vector<std::vector<Visit>> branches;
  std::vector<Visit> after;
};

// Batches of one worker, all alike: each begins anew when its last stage has ended.
struct Chain {
  double in_flight = 1;  // at least 1
  std::vector<Stage> stages;
};

struct Network {
  std::vector<Processor> processors;
  std::vector<Station> stations;
  std::vector<Chain> chains;
};

struct Flow {
  std::vector<double> rates;                 // [chains] batches per second
  std::vector<double> elapsed;               // [chains] of a batch
  std::vector<double> station_busy;          // [stations] share of the time, 0 to 1
  std::vector<double> processor_busy;        // [processors] the same, of all cores
  std::vector<std::vector<double>> stretch;  // [chains][stations] time of a visit / its seconds

  double rate() const;  // of all chains
};

// REQUIRES stations and processors that exist, and a visit with time in every chain.
Flow SolveFlow(const Network& network);

}  // namespace dslide
