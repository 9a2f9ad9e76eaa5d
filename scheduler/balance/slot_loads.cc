#include "scheduler/balance/slot_loads.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/math/median.h"

namespace dslide {
namespace {

constexpr double kSeconds = 10;      // of training: time constant of the smoothing
constexpr double kLeastBusy = 0.05;  // share of an interval; less shows no speed

constexpr uint64_t kMostBytes = uint64_t{1} << 46;  // that are believed; sums do not overflow

double Fade(uint32_t interval_ms) { return std::exp(interval_ms / (-1000 * kSeconds)); }

// The weight of a new value beside `reports` earlier ones.
double Weight(uint32_t interval_ms, uint32_t reports) {
  return std::max(1 - Fade(interval_ms), 1.0 / (1.0 + reports));
}

bool IsWork(float value) { return std::isfinite(value) && value >= 0; }

}  // namespace

void SlotLoads::Add(Incarnation server, uint32_t cores, uint64_t memory_limit_bytes, bool newcomer,
                    uint64_t disk_bytes) {
  Server& added = servers_[server];
  added.newcomer |= newcomer;  // one that comes back has as much to prove as before
  added.cores = std::max(1u, cores);
  added.memory_limit_bytes = memory_limit_bytes;
  added.disk_bytes = disk_bytes;
  core_capacity_.reset();
}

void SlotLoads::OnBatch(const Plan& plan) {
  if (std::exchange(proving_version_, plan.version) != plan.version) {
    std::vector<bool> has_slots(plan.servers.size());
    for (const uint16_t owner : plan.slot_owner) has_slots[owner] = true;
    proving_.clear();
    for (size_t i = 0; i < has_slots.size(); ++i) {
      const auto found = servers_.find(plan.servers[i].incarnation);
      if (!has_slots[i] || found == servers_.end() || !found->second.newcomer) continue;
      proving_.push_back(found->first);
    }
  }
  for (const Incarnation server : proving_) {
    const auto found = servers_.find(server);
    if (found == servers_.end() || found->second.proof >= kMostProof) continue;
    found->second.proof++;
  }
}

bool SlotLoads::Unproven(Incarnation server) const {
  const auto found = servers_.find(server);
  return found != servers_.end() && found->second.newcomer && found->second.proof < kProofBatches;
}

void SlotLoads::Keep(const std::set<Incarnation>& servers) {
  std::erase_if(servers_, [&](const auto& known) { return !servers.contains(known.first); });
  core_capacity_.reset();
}

void SlotLoads::WarmUp(Incarnation server, uint32_t reports) {
  uint32_t& left = servers_.at(server).warm_up;
  left = std::max(left, reports);
}

const SlotLoads::Server& SlotLoads::Get(Incarnation server) const {
  const auto found = servers_.find(server);
  DSLIDE_CHECK(found != servers_.end());
  return found->second;
}

void SlotLoads::Report(Incarnation server, const LoadReport& report, uint64_t memory_used_bytes,
                       const Plan* plan) {
  const auto found = servers_.find(server);
  if (found == servers_.end()) return;
  const auto is_anothers = [&](uint32_t slot) {
    return plan != nullptr && slot < plan->slot_owner.size() &&
           plan->servers[plan->slot_owner[slot]].incarnation != server;
  };
  found->second.memory_used_bytes = std::min(memory_used_bytes, kMostBytes);
  found->second.slot_bytes = 0;
  for (size_t i = 0; i < report.slots.size(); ++i) {
    if (report.slots[i] >= slots_.size() || !IsWork(report.work[i])) continue;
    if (is_anothers(report.slots[i])) continue;
    Slot& slot = slots_[report.slots[i]];
    slot.bytes = std::min(report.bytes[i], kMostBytes);
    found->second.slot_bytes += slot.bytes;
    const bool came = slot.reports > 0 && slot.reporter != server;
    slot.reporter = server;
    const bool disturbed = slot.reports > 0 && found->second.warm_up > 0;
    if (came || disturbed || report.batches == 0) continue;
    const double load = double{report.work[i]} / report.batches;
    slot.load += (load - slot.load) * Weight(report.interval_ms, slot.reports);
    slot.reports++;
  }
  MeasureExecutors(found->second, report);
}

void SlotLoads::MeasureExecutors(Server& server, const LoadReport& report) {
  const size_t executors = report.busy.size();
  std::vector<double> work(executors, 0.0);
  for (size_t i = 0; i < report.slots.size(); ++i) {
    if (report.executor[i] < executors && IsWork(report.work[i])) {
      work[report.executor[i]] += report.work[i];
    }
  }
  double busy_sum = 0;
  for (const float busy : report.busy) busy_sum += busy;
  const double busy_now =
      executors == 0 ? 0 : std::clamp(busy_sum / static_cast<double>(executors), 0.0, 1.0);
  server.busy_share +=
      (busy_now - server.busy_share) * Weight(report.interval_ms, server.busy_reports);
  server.busy_reports++;
  if (report.batches == 0 || executors == 0) return;
  core_capacity_.reset();
  if (server.executor_work.size() != executors) {
    server.executor_work.assign(executors, 0.0);
    server.reports = 0;
  }
  const double weight = Weight(report.interval_ms, server.reports++);
  double told_work = 0, told_busy_s = 0;
  for (size_t e = 0; e < executors; ++e) {
    server.executor_work[e] += (work[e] / report.batches - server.executor_work[e]) * weight;
    if (!(report.busy[e] >= kLeastBusy) || work[e] == 0) continue;
    told_work += work[e];
    told_busy_s += double{report.busy[e]} * report.interval_ms / 1000;
  }
  // Without news the known values do not fade: a server may idle for long.
  if (told_busy_s == 0) return;
  if (server.warm_up > 0) {
    --server.warm_up;
    return;
  }
  server.work = server.work * Fade(report.interval_ms) + told_work;
  server.busy_s = server.busy_s * Fade(report.interval_ms) + told_busy_s;
}

double SlotLoads::MeanLoad() const {
  double sum = 0;
  size_t measured = 0;
  for (const Slot& slot : slots_) {
    if (slot.reports == 0) continue;
    sum += slot.load;
    ++measured;
  }
  return measured == 0 ? 0 : sum / static_cast<double>(measured);
}

double SlotLoads::Load(uint32_t slot) const {
  return slots_[slot].reports > 0 ? slots_[slot].load : MeanLoad();
}

uint64_t SlotLoads::SlotBytes(uint32_t slot) const { return slots_[slot].bytes; }

bool SlotLoads::CapacityMeasured(Incarnation server) const {
  const Server& s = Get(server);
  return s.busy_s > 0 && s.work > 0;
}

bool SlotLoads::CapacitiesMeasured(std::span<const Incarnation> servers) const {
  return std::all_of(servers.begin(), servers.end(),
                     [&](Incarnation server) { return CapacityMeasured(server); });
}

double SlotLoads::SaidCapacity(const Server& s) const {
  if (!(s.busy_s > 0 && s.work > 0)) return s.cores * CoreCapacity();
  return static_cast<double>(s.executor_work.size()) * s.work / s.busy_s;
}

double SlotLoads::Capacity(Incarnation server) const {
  const Server& s = Get(server);
  const double said = SaidCapacity(s);
  if (!s.newcomer || s.proof >= kMostProof) return said;
  double others = 0;
  size_t old = 0, unproven = 0;
  for (const auto& [id, other] : servers_) {
    unproven += other.newcomer && other.proof < kProofBatches;
    if (other.newcomer) continue;
    others += SaidCapacity(other);
    ++old;
  }
  if (old == 0) return said;
  const double at_first = others / static_cast<double>(std::max(old, unproven));
  return std::min(said, std::ldexp(at_first, static_cast<int>(s.proof / kProofBatches)));
}

double SlotLoads::CoreCapacity() const {
  if (core_capacity_) return *core_capacity_;
  std::vector<double> per_core;
  for (const auto& [id, s] : servers_) {
    if (CapacityMeasured(id)) per_core.push_back(SaidCapacity(s) / s.cores);
  }
  core_capacity_ = per_core.empty() ? 1 : Median(std::move(per_core));
  return *core_capacity_;
}

double SlotLoads::BusyShare(Incarnation server) const { return Get(server).busy_share; }

double SlotLoads::ExecutorSkew(Incarnation server) const {
  const std::vector<double>& work = Get(server).executor_work;
  double sum = 0, most = 0;
  for (const double w : work) {
    sum += w;
    most = std::max(most, w);
  }
  return sum > 0 ? most * static_cast<double>(work.size()) / sum : 1.0;
}

uint64_t SlotLoads::MemoryUsed(Incarnation server) const { return Get(server).memory_used_bytes; }
uint64_t SlotLoads::MemoryLimit(Incarnation server) const { return Get(server).memory_limit_bytes; }

std::vector<BalanceOwner> SlotLoads::Owners(std::span<const Incarnation> servers,
                                            const std::vector<bool>& leaving) const {
  DSLIDE_CHECK(leaving.size() == servers.size());
  std::vector<BalanceOwner> owners;
  for (size_t i = 0; i < servers.size(); ++i) {
    const Server& s = Get(servers[i]);
    BalanceOwner owner{Capacity(servers[i]), s.memory_limit_bytes, leaving[i]};
    if (owner.memory_bytes > 0) {
      const uint64_t beside = s.memory_used_bytes - std::min(s.memory_used_bytes, s.slot_bytes);
      owner.memory_bytes =
          std::max<uint64_t>(1, owner.memory_bytes - std::min(owner.memory_bytes, beside));
    }
    owners.push_back(owner);
  }
  AddDisks(servers, &owners);
  return owners;
}

void SlotLoads::AddDisks(std::span<const Incarnation> servers,
                         std::vector<BalanceOwner>* owners) const {
  double memory = 0, needed = 0;
  uint64_t largest = 0;
  for (const BalanceOwner& owner : *owners) {
    if (owner.memory_bytes == 0) return;
    if (!owner.leaving) memory += static_cast<double>(owner.memory_bytes);
  }
  for (const Slot& slot : slots_) {
    needed += static_cast<double>(slot.bytes);
    largest = std::max(largest, slot.bytes);
  }
  if (memory == 0 || memory >= needed) return;
  for (size_t i = 0; i < owners->size(); ++i) {
    uint64_t& bytes = (*owners)[i].memory_bytes;
    // Whole slots: those of a server may be one less than its share.
    const auto share = static_cast<uint64_t>(static_cast<double>(bytes) / memory * needed);
    bytes = std::max(bytes, std::min(share + largest, bytes + Get(servers[i]).disk_bytes));
  }
}

std::vector<BalanceSlot> SlotLoads::Slots(std::span<const uint16_t> slot_owner,
                                          size_t servers) const {
  DSLIDE_CHECK(slot_owner.size() == slots_.size());
  const double mean = MeanLoad();
  std::vector<BalanceSlot> slots;
  slots.reserve(slots_.size());
  for (size_t s = 0; s < slots_.size(); ++s) {
    slots.push_back({slots_[s].reports > 0 ? slots_[s].load : mean, slots_[s].bytes,
                     slot_owner[s] < servers ? slot_owner[s] : kNoOwner});
  }
  return slots;
}

std::vector<double> SlotLoads::RelativeLoads(std::span<const Incarnation> servers,
                                             std::span<const uint16_t> slot_owner) const {
  std::vector<double> relative(servers.size(), 0.0);
  double load = 0, capacity = 0;
  for (const BalanceSlot& slot : Slots(slot_owner, servers.size())) {
    if (slot.owner == kNoOwner) continue;
    relative[slot.owner] += slot.load;
    load += slot.load;
  }
  for (const Incarnation server : servers) capacity += Capacity(server);
  for (size_t i = 0; i < servers.size(); ++i) {
    relative[i] = load > 0 ? relative[i] / Capacity(servers[i]) * capacity / load : 1.0;
  }
  return relative;
}

std::vector<double> SlotLoads::MeasuredLoads(std::span<const Incarnation> servers,
                                             std::span<const uint16_t> slot_owner) const {
  std::vector<double> loads(servers.size(), 0.0);
  std::vector<bool> has_slots(servers.size());
  for (const uint16_t owner : slot_owner) {
    if (owner < servers.size()) has_slots[owner] = true;
  }
  double sum = 0, count = 0;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (!has_slots[i]) continue;
    const Server& server = Get(servers[i]);
    if (server.busy_reports == 0) return RelativeLoads(servers, slot_owner);
    loads[i] = server.busy_share;
    sum += loads[i];
    ++count;
  }
  if (sum == 0) return RelativeLoads(servers, slot_owner);
  for (double& load : loads) load *= count / sum;
  return loads;
}

double SlotLoads::Imbalance(std::span<const Incarnation> servers,
                            std::span<const uint16_t> slot_owner) const {
  const std::vector<bool> none(servers.size(), false);
  return dslide::Imbalance(Owners(servers, none), Slots(slot_owner, servers.size()));
}

double SlotLoads::SecondsPerBatch(std::span<const Incarnation> servers,
                                  std::span<const uint16_t> slot_owner) const {
  std::vector<double> loads(servers.size(), 0.0);
  for (const BalanceSlot& slot : Slots(slot_owner, servers.size())) {
    if (slot.owner != kNoOwner) loads[slot.owner] += slot.load;
  }
  double most = 0;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (!CapacityMeasured(servers[i])) continue;
    most = std::max(most, loads[i] / Capacity(servers[i]) * ExecutorSkew(servers[i]));
  }
  return most;
}

}  // namespace dslide
