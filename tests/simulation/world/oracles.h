// What must hold in every simulation, whatever went wrong: no work lost, no batch counted twice.
//
// Processes and the disk report what happens; the oracles keep an account of their own, apart from
// the cores'. A violation is a line with the observation.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "scheduler/ledger/ledger.h"
#include "tests/simulation/world/sim_disk.h"
#include "tests/simulation/world/sim_setup.h"
#include "tests/simulation/world/sim_trace.h"

namespace dslide::sim {

class Oracles {
 public:
  Oracles(const SimSetup* setup, SimTrace* trace) : setup_(*setup), trace_(*trace) {}

  void Violated(std::string line);
  const std::vector<std::string>& violations() const { return violations_; }

  // Call when the scheduler has written a checkpoint's manifest to its disk.
  void ManifestWritten(const std::string& directory, const SimCheckpoint& checkpoint);
  // Recounts a ledger from its first entry on. `finished`: all batches of the run must count.
  void Recount(const std::vector<LedgerEntry>& ledger, bool finished);

  // Call when this worker's report of a batch, under this plan, made an entry of the ledger.
  void Counted(const BatchId& batch, Incarnation worker, uint32_t plan_version);
  void Planned(const Plan& plan);
  bool has_plan() const { return plan_version_ != 0; }
  void Fenced(Incarnation member) { fenced_.insert(member); }
  void Joined(Incarnation member) { fenced_.erase(member); }

 private:
  using BatchNumbers = std::set<uint64_t>;  // within the run

  uint64_t EpochBatches() const { return setup_.batches() / setup_.config.train.epochs; }
  BatchNumbers Claimed(uint32_t epoch, const std::vector<DoneBatch>& done) const;
  void CheckRows(const std::string& directory, const SimCheckpoint& checkpoint);
  void CheckApplied(const std::string& directory, const SimShard& shard,
                    const BatchNumbers& claimed);

  const SimSetup& setup_;
  SimTrace& trace_;
  std::vector<std::string> violations_;
  std::map<std::string, Manifest> manifests_;  // all that were ever written, by name
  uint32_t plan_version_ = 0;
  uint32_t generation_ = 0;
  std::set<Incarnation> fenced_;  // declared dead by the scheduler
};

}  // namespace dslide::sim
