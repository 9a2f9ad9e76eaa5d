// One checkpoint across the cluster: who has been asked, who has answered.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/wire/messages.h"

namespace dslide {

class CheckpointRound {
 public:
  struct Server {
    Incarnation incarnation;
    uint32_t index;  // in the plan
    std::string name;
  };
  // Waits for the given servers, whose parts become shards in that order. `plan_version`: of the
  // plan whose servers they are.
  CheckpointRound(std::string name, uint32_t plan_version, std::vector<Server> servers);

  const std::string& name() const { return name_; }

  // Takes a server's answer; others' answers and other rounds' are ignored. An answer that cannot
  // be true is a failure of that server.
  void Take(Incarnation server, const CheckpointDone& done);

  const std::vector<Server>& servers() const { return servers_; }
  // Whether a server is asked, and has not answered.
  bool Awaits(Incarnation server) const;
  bool complete() const { return answers_.size() == servers_.size(); }
  // The first failure, naming the server; empty: none.
  std::string Failure() const;
  // REQUIRES complete() and no failure.
  std::vector<ManifestShard> Shards() const;
  // The longest that an executor stood still for the mark.
  uint32_t StallUs() const;

 private:
  std::string name_;
  uint32_t plan_version_;
  std::vector<Server> servers_;
  std::map<Incarnation, CheckpointDone> answers_;
};

}  // namespace dslide
