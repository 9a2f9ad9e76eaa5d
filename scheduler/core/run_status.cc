#include "scheduler/core/run_status.h"

#include <algorithm>
#include <map>

#include "common/config/schedule.h"
#include "common/run/step.h"
#include "scheduler/core/run_state.h"
#include "scheduler/members/planned_servers.h"

namespace dslide {
namespace {

ServerFigures FiguresOf(const SlotLoads& loads, Incarnation server) {
  return {loads.Capacity(server), loads.BusyShare(server), loads.ExecutorSkew(server),
          loads.MemoryUsed(server), loads.MemoryLimit(server)};
}

std::vector<SeatStatus> SeatsOf(const Cluster& cluster) {
  const Plan& plan = cluster.seats.plan();
  std::vector<SeatStatus> seats(plan.servers.size());
  if (seats.empty()) return seats;
  const std::vector<double> loads =
      cluster.loads.MeasuredLoads(IncarnationsOf(plan), plan.slot_owner);
  for (size_t i = 0; i < seats.size(); ++i) {
    seats[i].load = loads[i];
    seats[i].vacant = cluster.roster.Find(plan.servers[i].incarnation) == nullptr;
  }
  for (const uint16_t owner : plan.slot_owner) seats[owner].slots++;
  return seats;
}

std::map<Incarnation, size_t> SeatsByServer(const Plan& plan) {
  std::map<Incarnation, size_t> seats;
  for (size_t i = 0; i < plan.servers.size(); ++i) seats.emplace(plan.servers[i].incarnation, i);
  return seats;
}

double ProgressOf(const RunContext& run, const Pass& pass) {
  const uint64_t per_epoch = BatchesPerEpoch(run.config.train, run.EpochSamples());
  const uint64_t total = per_epoch * run.config.train.epochs;
  if (total == 0) return 1.0;
  const uint64_t in_epoch = pass.begun() ? pass.done() : pass.counted().done.size();
  const uint64_t done = per_epoch * pass.counted().epoch + in_epoch;
  return std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

}  // namespace

size_t RunStatus::Count(Role role) const {
  return static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](const auto& entry) {
    return entry.member.role == role;
  }));
}

const MemberStatus* RunStatus::Find(Incarnation member) const {
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& entry) {
    return entry.member.incarnation == member;
  });
  return found == members.end() ? nullptr : &*found;
}

RunStatus Describe(const RunState& run, int64_t now_ms) {
  RunStatus status;
  status.run = &run.inputs;
  status.now_ms = now_ms;
  status.started_ms = run.started_ms;
  status.phase = run.Phase();
  if (!run.outcome.ok()) status.outcome = run.outcome.error().message;
  status.waiting = run.WaitingLine();

  status.epoch = run.pass().counted().epoch;
  status.batches = run.pass().counted().batches;
  status.samples = run.pass().counted().samples;
  status.progress = ProgressOf(run.inputs, run.pass());
  status.awaits_segment = run.inputs.is_stream() && run.InPass() && run.pass().between_passes();
  status.work = run.totals.work;
  status.lease_bytes_per_sample = run.totals.LeaseBytesPerSample();
  status.training_ms = run.clock.Millis(now_ms);
  status.training_cpu_seconds = run.clock.cpu_seconds();
  status.last_evaluation = run.totals.last_evaluation;
  status.last_held_out = run.totals.last_held_out;
  status.choices = run.totals.choices;
  status.last_checkpoint = run.checkpointer.newest_directory();

  status.plan = run.plan();
  status.recoveries = run.cluster.seats.recoveries();
  status.offences = run.trust.offences().total();
  status.trust = run.trust.totals();
  status.moves = run.balancer.totals();
  status.moving_slots = run.change().moving_slots();
  status.imbalance = Balancer::Imbalance(run.cluster.Loads(run.Training()));
  status.seats = SeatsOf(run.cluster);
  status.decisions = run.advisor.decisions();
  status.journal = run.out.journal();

  const std::map<Incarnation, size_t> seat_of = SeatsByServer(run.plan());
  for (const Role role : {Role::kServer, Role::kWorker}) {
    for (const Member* member : run.roster().Of(role)) {
      MemberStatus& entry = status.members.emplace_back();
      entry.member = *member;
      entry.batches_per_second = run.advisor.BatchesPerSecond(member->incarnation, now_ms);
      if (role != Role::kServer) continue;
      if (const auto seat = seat_of.find(member->incarnation); seat != seat_of.end()) {
        entry.seat = seat->second;
      }
      entry.figures = FiguresOf(run.cluster.loads, member->incarnation);
    }
  }
  status.of_servers = run.roster().Used(Role::kServer);
  status.of_workers = run.roster().Used(Role::kWorker);
  status.cpu_seconds = run.roster().cpu_seconds();
  status.peak_rss_bytes = run.roster().peak_rss_bytes();
  return status;
}

}  // namespace dslide
