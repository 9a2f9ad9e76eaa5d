#include "scheduler/checkpoints/checkpoint_round.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "common/base/nearest.h"
#include "common/checkpoint/layout.h"

namespace dslide {
namespace {

constexpr size_t kLongestError = 500;  // bytes of it that are shown

// `shard`: the name of the one that was asked for.
std::string WhyUntrue(const CheckpointDone& done, const std::string& shard) {
  if (done.shard != shard) {
    return fmt::format("it is {}, not {}", Printable(done.shard), shard);
  }
  if (done.files.empty()) return "it has no files";
  std::set<std::string> names;
  uint64_t bytes = 0;
  for (const ShardFile& file : done.files) {
    if (!names.insert(file.name).second) return Printable(file.name) + " is in it twice";
    bytes += file.bytes;
  }
  const std::string why = WhyNoShard({done.shard, "", done.rows, done.bytes, done.files});
  if (!why.empty() || bytes == done.bytes) return why;
  return fmt::format("its files have {} bytes, not {}", bytes, done.bytes);
}

}  // namespace

CheckpointRound::CheckpointRound(std::string name, uint32_t plan_version,
                                 std::vector<Server> servers)
    : name_(std::move(name)), plan_version_(plan_version), servers_(std::move(servers)) {}

void CheckpointRound::Take(Incarnation server, const CheckpointDone& done) {
  const auto asked = std::ranges::find(servers_, server, &Server::incarnation);
  if (asked == servers_.end() || done.name != name_) return;
  CheckpointDone& answer = answers_[server] = done;
  if (!answer.error.empty()) {
    answer.error = Printable(answer.error, kLongestError);
    return;
  }
  const std::string shard = ShardName(plan_version_, asked->index);
  if (const std::string why = WhyUntrue(done, shard); !why.empty()) {
    answer.error = "says of its shard what cannot be: " + why;
  }
}

bool CheckpointRound::Awaits(Incarnation server) const {
  return std::ranges::count(servers_, server, &Server::incarnation) > 0 &&
         !answers_.contains(server);
}

std::string CheckpointRound::Failure() const {
  for (const Server& server : servers_) {
    const auto answer = answers_.find(server.incarnation);
    if (answer != answers_.end() && !answer->second.error.empty()) {
      return fmt::format("{}: {}", server.name, answer->second.error);
    }
  }
  return "";
}

std::vector<ManifestShard> CheckpointRound::Shards() const {
  DSLIDE_CHECK(complete());
  std::vector<ManifestShard> shards;
  for (const Server& server : servers_) {
    const CheckpointDone& done = answers_.at(server.incarnation);
    shards.push_back({done.shard, server.name, done.rows, done.bytes, done.files});
  }
  return shards;
}

uint32_t CheckpointRound::StallUs() const {
  uint32_t longest = 0;
  for (const auto& [server, done] : answers_) longest = std::max(longest, done.stall_us);
  return longest;
}

}  // namespace dslide
