#include "tests/simulation/world/sim_disk.h"

#include <algorithm>

namespace dslide::sim {

const SimCheckpoint* SimDisk::Newest() const {
  const SimCheckpoint* newest = nullptr;
  for (const auto& [directory, checkpoint] : checkpoints) {
    if (checkpoint.manifest) newest = &checkpoint;
  }
  return newest;
}

std::vector<std::string> SimDisk::CompleteNames() const {
  std::vector<std::string> names;
  for (const auto& [directory, checkpoint] : checkpoints) {
    if (checkpoint.manifest) names.push_back(checkpoint.manifest->name);
  }
  return names;
}

void SimDisk::Prune(size_t keep) {
  size_t complete = CompleteNames().size();
  if (complete <= keep) return;
  for (auto next = checkpoints.begin(); next != checkpoints.end() && complete > keep;) {
    complete -= next->second.manifest.has_value();
    next = checkpoints.erase(next);
  }
}

void SimDisk::LosePower(size_t kept) {
  if (ledger.size() > synced) ledger.resize(std::min(ledger.size(), synced + kept));
}

}  // namespace dslide::sim
