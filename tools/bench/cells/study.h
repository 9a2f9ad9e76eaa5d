// One run of a study: cells that exchange rows, or a cluster whose samples visit some servers only.
// A run is one thread, and one seed gives the same result on the same kind of CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/config.h"
#include "common/data/dataset.h"
#include "common/data/measures/metrics.h"
#include "tools/bench/cells/exchange.h"
#include "tools/bench/cells/visits.h"

namespace dslide::cells {

struct StudyData {
  Dataset train, test;
};

struct CellsOptions {
  uint32_t groups = 1;
  // Samples of all groups together between exchanges, at the run's beginning and at its end; in
  // between it grows by the same factor in the same time.
  double exchange_first = 8192, exchange_last = 8192;
  uint32_t lag = 0;          // batches of a group in flight after each one (BenchCluster)
  uint64_t all_samples = 0;  // between exchanges in which no row waits; 0: only the last one
  bool blocks = false;       // a group has a block of the file; else every G-th sample
  ExchangeRules rules;
};

struct StudyResult {
  RankingMetrics metrics;
  double loss = 0;  // mean over the samples trained
  double train_cpu_seconds = 0;
  double exchange_cpu_seconds = 0;  // of these
  uint64_t samples = 0;             // trained
  Traffic input, output;            // of cells
  double visits = 0;                // of visits: servers a sample
  double bytes_per_sample = 0;      // of visits
};

// Which samples each group has in an epoch, in the order in which it trains them.
std::vector<std::vector<uint32_t>> DivideOverGroups(const Dataset& data, uint64_t seed,
                                                    uint32_t epoch, uint32_t groups, bool blocks);

// `config`: resolved, fp32. Group g takes the batches g, g + G, ... of an epoch.
StudyResult RunCells(const Config& config, const StudyData& data, const CellsOptions& options);

StudyResult RunVisits(const Config& config, const StudyData& data, uint32_t servers,
                      const VisitRules& rules);

}  // namespace dslide::cells
