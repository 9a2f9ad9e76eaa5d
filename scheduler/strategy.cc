#include "scheduler/strategy.h"
namespace dslide { Decisions Strategy::Decide(const std::vector<WorkerMeasure>& w, const std::vector<ServerMeasure>& s, const RunMeasure& r) { Decisions d; for (auto& x : w) d.workers.push_back({x.name, r.unit_batches, 0, false, "", false}); for (auto& x : s) d.servers.push_back({x.name, 0, "", false}); return d; } }
