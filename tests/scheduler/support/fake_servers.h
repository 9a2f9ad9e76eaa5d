// Servers that answer a SchedulerCore at once, and remember which batches their slots have taken.
//
// Checkpoints hold what the slots have taken, and slots that move take it along, so that a test can
// check the promise: every slot has every batch that the ledger counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/wire/messages.h"

namespace dslide {

// What slots have taken.
using SlotBatches = std::map<size_t, std::set<BatchId>>;

struct FakeServer {
  bool alive = true;
  std::string name;        // as the scheduler called it
  uint32_t loaded = 0;     // version of the plan whose slots are loaded, 0: none
  uint64_t committed = 0;  // steps
  SlotBatches slots;       // of that plan
  SlotBatches left;        // slots that went to others with a plan of this generation
  Plan plan;               // that is loaded
  std::string saved;       // its last checkpoint of this plan
  bool fenced = false;     // was told to begin a new life
};

class FakeServers {
 public:
  explicit FakeServers(const Config& config) : config_(config) {}

  bool contains(uint64_t id) const { return servers_.contains(id); }
  FakeServer& at(uint64_t id) { return servers_.at(id); }
  const FakeServer& at(uint64_t id) const { return servers_.at(id); }
  void Add(uint64_t id) { servers_.try_emplace(id); }

  // Does what a message of the scheduler says. The reply; nullopt: there is none.
  std::optional<Body> Answer(uint64_t id, uint32_t plan_version, const Body& message);
  // The server begins a new life, and is silent until it joins. Its name.
  std::string Fence(uint64_t id);
  // The loaded servers of this generation take a batch.
  void Take(const BatchId& batch, uint32_t generation);
  // What a server's heartbeats say of its load.
  LoadReport LoadOf(uint64_t id) const;

  // Checks that the slots of plan `plan_version` have these batches.
  void CheckHave(uint32_t plan_version, const std::map<BatchId, int>& batches) const;
  // Checks that every shard of a checkpoint holds what its manifest says is done.
  void CheckSaved(const Manifest& manifest) const;

  // A checkpoint of an earlier run, from which slots can be restored.
  void AddManifest(const Manifest& manifest) { manifests_before_.push_back(manifest); }

  bool moves_answered = true;           // MoveSlots
  std::vector<double> slot_work;        // [V] of a batch; not empty: servers report loads
  std::map<uint64_t, double> capacity;  // of servers; 1000 if it is not said
  uint64_t slot_bytes = 1000;
  bool commits_lost = false;      // CommitSteps do not reach the servers
  uint64_t commits_lost_to = 0;   // CommitSteps do not reach this server
  uint64_t checkpoints_lost = 0;  // CheckpointRequests to this server neither
  uint64_t ready_lost = 0;        // what this server says when it has taken a plan up
  std::string checkpoint_error;   // of server 2
  std::map<std::pair<std::string, uint64_t>, uint64_t> saved;  // by checkpoint and server: steps

 private:
  std::optional<Body> TakePlan(uint64_t id, const Plan& plan);
  void Load(uint64_t id, const Plan& plan);
  bool SwitchPlan(uint64_t id, const Plan& plan);
  const std::set<BatchId>* TakenOf(size_t slot, const Plan& plan) const;
  void Restore(const std::string& checkpoint, SlotBatches* slots) const;
  CheckpointDone Save(uint64_t id, const CheckpointRequest& request);
  std::set<BatchId> BatchesOf(const Manifest& manifest) const;

  const Config config_;
  std::map<uint64_t, FakeServer> servers_;
  std::vector<Manifest> manifests_before_;
  uint64_t moved_bytes_ = 0;  // of the last plan switch
  // By checkpoint and shard: what its slots have taken.
  std::map<std::pair<std::string, std::string>, SlotBatches> shards_;
};

}  // namespace dslide
