#include "tests/scheduler/support/fake_servers.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "tests/scheduler/support/promise.h"

namespace dslide {
namespace {

std::set<size_t> SlotsFor(uint64_t id, const Plan& plan) {
  std::set<size_t> slots;
  for (size_t slot = 0; slot < plan.slot_owner.size(); ++slot) {
    if (plan.servers[plan.slot_owner[slot]].incarnation.value == id) slots.insert(slot);
  }
  return slots;
}

}  // namespace

std::optional<Body> FakeServers::Answer(uint64_t id, uint32_t plan_version, const Body& message) {
  FakeServer& server = servers_.at(id);
  const bool current = server.loaded != 0 && plan_version == server.loaded;
  if (const auto* reply = std::get_if<JoinReply>(&message)) server.name = reply->name;
  if (const auto* plan = std::get_if<Plan>(&message)) return TakePlan(id, *plan);
  if (const auto* move = std::get_if<MoveSlots>(&message)) {
    if (moves_answered && !move->slots.empty()) return MoveReady{move->move, 100, 0};
  }
  if (const auto* commit = std::get_if<CommitSteps>(&message)) {
    if (!current || commits_lost || id == commits_lost_to) return {};
    server.committed = std::max(server.committed, commit->committed);
    return StepsCommitted{server.committed};
  }
  if (const auto* request = std::get_if<CheckpointRequest>(&message)) {
    if (current && id != checkpoints_lost) return Save(id, *request);
  }
  return {};
}

std::string FakeServers::Fence(uint64_t id) {
  FakeServer& server = servers_.at(id);
  const std::string name = server.name;
  server = FakeServer();
  server.alive = false;
  server.name = name;
  server.fenced = true;
  return name;
}

void FakeServers::Take(const BatchId& batch, uint32_t generation) {
  for (auto& [id, server] : servers_) {
    if (server.loaded == 0 || GenerationOf(server.plan) != generation) continue;
    for (SlotBatches* slots : {&server.slots, &server.left}) {
      for (auto& [slot, taken] : *slots) taken.insert(batch);
    }
  }
}

LoadReport FakeServers::LoadOf(uint64_t id) const {
  constexpr uint32_t kBeatBatches = 10;
  const auto given = capacity.find(id);
  LoadReport load;
  load.interval_ms = 1000;
  load.batches = kBeatBatches;
  double all_work = 0;
  for (const auto& [slot, taken] : servers_.at(id).slots) {
    load.slots.push_back(static_cast<uint32_t>(slot));
    load.work.push_back(static_cast<float>(kBeatBatches * slot_work[slot]));
    all_work += kBeatBatches * slot_work[slot];
  }
  load.executor.resize(load.slots.size());
  for (auto* figures : {&load.retrieved, &load.used, &load.updated}) {
    figures->resize(load.slots.size());
  }
  load.service_us.resize(load.slots.size());
  load.bytes.assign(load.slots.size(), slot_bytes);
  load.busy = {static_cast<float>(all_work / (given == capacity.end() ? 1000 : given->second))};
  return load;
}

void FakeServers::CheckHave(uint32_t plan_version, const std::map<BatchId, int>& batches) const {
  for (const auto& [id, server] : servers_) {
    if (server.loaded == 0 || server.loaded != plan_version) continue;
    for (const auto& [slot, taken] : server.slots) {
      for (const auto& [batch, times] : batches) REQUIRE(taken.contains(batch));
    }
  }
}

void FakeServers::CheckSaved(const Manifest& manifest) const {
  const std::set<BatchId> done = BatchesOf(manifest);
  for (const ManifestShard& shard : manifest.shards) {
    for (const auto& [slot, taken] : shards_.at({manifest.name, shard.directory})) {
      for (const BatchId& batch : done) REQUIRE(taken.contains(batch));
    }
  }
}

std::optional<Body> FakeServers::TakePlan(uint64_t id, const Plan& plan) {
  FakeServer& server = servers_.at(id);
  const bool newer = plan.version > server.loaded;
  if (newer && server.loaded != 0 && GenerationOf(plan) == GenerationOf(server.plan)) {
    if (!SwitchPlan(id, plan)) return {};
  } else if (newer) {
    Load(id, plan);
  }
  const bool seated = std::any_of(plan.servers.begin(), plan.servers.end(),
                                  [&](const auto& s) { return s.incarnation.value == id; });
  if (!seated || id == ready_lost) return {};
  return Ready{server.loaded, 5, 100, newer ? moved_bytes_ : 0, 7000};
}

void FakeServers::Load(uint64_t id, const Plan& plan) {
  FakeServer& server = servers_.at(id);
  server.plan = plan;
  server.loaded = plan.version;
  server.saved.clear();
  server.slots.clear();
  server.left.clear();
  server.committed = 0;
  for (const size_t slot : SlotsFor(id, plan)) server.slots[slot];
  Restore(plan.restore.substr(plan.restore.rfind('/') + 1), &server.slots);
}

// What the server of this generation that lives and has the slot has taken; null: there is none.
const std::set<BatchId>* FakeServers::TakenOf(size_t slot, const Plan& plan) const {
  for (const auto& [id, server] : servers_) {
    if (!server.alive || server.loaded == 0) continue;
    if (GenerationOf(server.plan) != GenerationOf(plan)) continue;
    for (const SlotBatches* slots : {&server.slots, &server.left}) {
      if (slots->contains(slot)) return &slots->at(slot);
    }
  }
  return nullptr;
}

// False: a slot cannot be had, its old owner is gone.
bool FakeServers::SwitchPlan(uint64_t id, const Plan& plan) {
  FakeServer& server = servers_.at(id);
  SlotBatches slots;
  uint64_t moved = 0;
  for (const size_t slot : SlotsFor(id, plan)) {
    const std::set<BatchId>* taken = TakenOf(slot, plan);
    if (taken == nullptr) return false;
    slots[slot] = *taken;
    moved += !server.slots.contains(slot);
  }
  for (const auto& [slot, taken] : server.slots) {
    if (!slots.contains(slot)) server.left[slot] = taken;
  }
  for (const auto& [slot, taken] : slots) server.left.erase(slot);
  server.slots = std::move(slots);
  server.plan = plan;
  server.loaded = plan.version;
  server.saved.clear();
  moved_bytes_ = moved * slot_bytes;
  return true;
}

void FakeServers::Restore(const std::string& checkpoint, SlotBatches* slots) const {
  for (const auto& [shard, saved_slots] : shards_) {
    for (auto& [slot, taken] : *slots) {
      if (shard.first == checkpoint && saved_slots.contains(slot)) taken = saved_slots.at(slot);
    }
  }
  for (const Manifest& manifest : manifests_before_) {
    if (manifest.name != checkpoint) continue;
    for (auto& [slot, taken] : *slots) taken = BatchesOf(manifest);
  }
}

CheckpointDone FakeServers::Save(uint64_t id, const CheckpointRequest& request) {
  FakeServer& server = servers_.at(id);
  size_t index = 0;
  while (server.plan.servers[index].incarnation.value != id) ++index;
  CheckpointDone done;
  done.name = request.name;
  done.shard = "shard-" + std::to_string(server.loaded) + "-" + std::to_string(index);
  done.rows = 5;
  done.stall_us = 1000 * static_cast<uint32_t>(id) + 500;
  done.files = {{"CURRENT", 16, 7}};
  done.bytes = 16;
  if (IsSynchronous(config_.train) && server.saved != request.name &&
      request.committed != server.committed) {
    done.error = "another step";
    done.retry = true;
  } else if (id == 2 && !checkpoint_error.empty()) {
    done.error = checkpoint_error;
  } else if (server.saved != request.name) {
    server.saved = request.name;
    saved[{request.name, id}] = server.committed;
    shards_[{request.name, done.shard}] = server.slots;
  }
  return done;
}

// All batches that a manifest counts.
std::set<BatchId> FakeServers::BatchesOf(const Manifest& manifest) const {
  std::set<BatchId> batches;
  const uint32_t unit = config_.train.unit_batches;
  for (uint32_t epoch = 0; epoch < manifest.epoch; ++epoch) {
    for (uint32_t n = 0; n < Promise::kBatches; ++n) batches.insert({epoch, n / unit, n % unit});
  }
  for (const DoneBatch& done : manifest.done) {
    batches.insert({manifest.epoch, done.unit, done.index});
  }
  return batches;
}

}  // namespace dslide
