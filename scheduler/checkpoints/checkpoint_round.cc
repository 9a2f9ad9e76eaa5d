#include "scheduler/checkpoints/checkpoint_round.h"

#include <fmt/core.h>

#include <algorithm>

namespace dslide {

CheckpointRound::CheckpointRound(std::string name,
                                 std::vector<std::pair<Incarnation, std::string>> servers)
    : name_(std::move(name)), servers_(std::move(servers)) {}

void CheckpointRound::Take(Incarnation server, const CheckpointDone& done) {
  const bool asked = std::any_of(servers_.begin(), servers_.end(),
                                 [&](const auto& s) { return s.first == server; });
  if (asked && done.name == name_) answers_[server] = done;
}

std::string CheckpointRound::Failure() const {
  for (const auto& [incarnation, name] : servers_) {
    const auto answer = answers_.find(incarnation);
    if (answer != answers_.end() && !answer->second.error.empty()) {
      return fmt::format("{}: {}", name, answer->second.error);
    }
  }
  return "";
}

std::vector<ManifestShard> CheckpointRound::Shards() const {
  DSLIDE_CHECK(complete());
  std::vector<ManifestShard> shards;
  for (const auto& [incarnation, name] : servers_) {
    const CheckpointDone& done = answers_.at(incarnation);
    shards.push_back({done.shard, name, done.rows, done.bytes, done.files});
  }
  return shards;
}

}  // namespace dslide
