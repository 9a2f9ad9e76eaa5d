#include "scheduler/plan/cluster.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/plural.h"
#include "common/run/lease_proofs.h"
#include "common/run/slot_plan.h"
#include "scheduler/balance/model_size.h"
#include "scheduler/base/events.h"
#include "scheduler/members/planned_servers.h"
#include "scheduler/plan/join_rules.h"
#include "scheduler/plan/memory_check.h"

namespace dslide {
namespace {

// Of the time until no batch is a stall, where a worker names the server.
constexpr double kSlowBatches =
    4;  // times what a batch takes, until nothing that is done is a stall
constexpr int64_t kUnknownBatches = 6;        // times the silence, before the first batch
constexpr int64_t kNewcomerSilenceMs = 1000;  // of one that has not proved itself
constexpr int64_t kProbationMs = 600'000;     // a newcomer that goes so soon has failed

std::string Listed(const std::string& names, const std::string& name) {
  return names.empty() ? name : names + ", " + name;
}

// Whether a worker says that the server does not answer, or not what it is asked.
bool Names(const Member& worker, const Member& server) {
  return std::ranges::count(worker.heartbeat.silent_servers, server.incarnation.value) > 0;
}

}  // namespace

Cluster::Cluster(const RunInputs& inputs, bool live, int64_t now_ms)
    : roster(inputs.config.cluster.heartbeat_ms),
      admission(inputs.config.cluster.heartbeat_ms),
      seats(inputs.ledger, live, now_ms),
      loads(SlotMemoryBytes(inputs.config)),
      keyed_(inputs.keyed),
      synchronous_(IsSynchronous(inputs.config.train)),
      servers_(inputs.config.cluster.servers),
      takeover_s_(inputs.config.cluster.takeover_s),
      join_timeout_s_(inputs.config.cluster.join_timeout_s) {
  for (const PlanServer& server : seats.plan().servers) loads.Add(server.incarnation, 1, 0);
}

LossOptions Cluster::OptionsAfterLoss() const {
  LossOptions options;
  options.without_them = !synchronous_ && !seats.HaveSlots(seats.Vacant(roster));
  options.servers = ChooseServers(seats.plan(), roster, servers_, resting_);
  options.enough = AreEnough(options.servers.size(), seats.plan(), servers_);
  return options;
}

Cluster::Sequel Cluster::SequelOfLoss() const {
  const LossOptions options = OptionsAfterLoss();
  if (options.without_them) return Sequel::kGoOnWithout;
  const auto is_spare = [](const SeatedServer& one) { return !one.server->seated; };
  if (!options.enough) {
    return takeover_s_ > 0 && !options.servers.empty() ? Sequel::kSharedLater : Sequel::kStop;
  }
  return std::ranges::any_of(options.servers, is_spare) ? Sequel::kReplaced : Sequel::kShared;
}

// What the run waits for when a server of the plan is gone, and what comes then.
std::string Cluster::ReplacementLine() const {
  switch (SequelOfLoss()) {
    case Sequel::kGoOnWithout:
      return "it had no slots, and the others go on without it";
    case Sequel::kReplaced:
      return "another server takes its place, and all go on from the last checkpoint";
    case Sequel::kShared:
      return "the others go on with its slots from the last checkpoint (cluster.servers are left)";
    case Sequel::kSharedLater:
      return fmt::format(
          "waiting {} s for it or another server; then the others take its slots, from the last "
          "checkpoint (cluster.takeover_s)",
          takeover_s_);
    case Sequel::kStop:
      break;
  }
  return fmt::format(
      "waiting {} s for it or another server; then the run stops, to be resumed "
      "(cluster.join_timeout_s)",
      join_timeout_s_);
}

// The same in the status, while it has not come yet.
std::string Cluster::VacancyLine(const std::string& missing) const {
  switch (SequelOfLoss()) {
    case Sequel::kGoOnWithout:
      return fmt::format("going on without {}, which had no slots", missing);
    case Sequel::kReplaced:
    case Sequel::kShared:
      return fmt::format("waiting for {} or a replacement (others take over once it is given up)",
                         missing);
    case Sequel::kSharedLater:
      return fmt::format("waiting for {} or a replacement (after {} s the others take over)",
                         missing, takeover_s_);
    case Sequel::kStop:
      break;
  }
  return fmt::format("waiting for {} or a replacement (after {} s the run stops, to be resumed)",
                     missing, join_timeout_s_);
}

Cluster::Joined Cluster::OnJoin(const JoinRequest& request, const RunContext& run, int64_t now_ms,
                                Outbox* out) {
  const Message& message = request.message;
  const auto& join = std::get<Join>(message.body);
  // Without an answer it asks again after a while; a refusal would end it.
  const auto wait = [&] {
    out->Notice({event::kJoinsLimited, "too many processes join at the moment; some have to wait"},
                now_ms);
    return Joined();
  };
  const Incarnation incarnation = message.envelope.incarnation;
  const bool is_server = join.role == Role::kServer;
  const JoinCase asked = {
      .request = request,
      .join = join,
      .incarnation = incarnation,
      .cluster = *this,
      .run = run,
      .known = roster.Find(incarnation),
      .has_seat = seats.Has(incarnation),
      // Others may still be copying from a server that the last plan is without.
      .departs = is_server && seats.HadSeat(incarnation, join.plan_version),
      .declared_dead = fenced_.contains(incarnation),
      .key = KeyOf(incarnation),
      .rate = &join_rate,
      .now_ms = now_ms,
  };
  const auto objection = ObjectionTo(asked);
  if (objection) {
    if (!objection->rule->code) return wait();
    if (objection->rule->is_decision && join.name != kDoctorName) {
      out->Decide({event::kServerRefused,
                   fmt::format("a server at {} is refused: {}", join.address, objection->why),
                   {{"address", join.address}, {"why", objection->why}}},
                  now_ms);
    }
    out->Reply(request.from, message.envelope.sequence,
               ErrorReply{*objection->rule->code, objection->why});
    return {};
  }
  if (asked.new_server() && !request.reached && !asked.has_seat && !asked.departs) {
    if (!admission.Ask(request.from, message, now_ms)) return wait();
    out->SendProbes(admission.DueProbes(now_ms));
    return {};
  }
  return {&Admit(asked, out), asked.known == nullptr};
}

// Adds a new member, or answers a known one again.
Member& Cluster::Admit(const JoinCase& asked, Outbox* out) {
  const Join& join = asked.join;
  const bool is_observer = join.role == Role::kObserver;
  if (asked.known == nullptr && is_observer) MakeRoomForObserver(asked.now_ms, out);
  Member& member = roster.Add(join, asked.incarnation, asked.request.from, asked.now_ms);
  if (asked.new_server()) {
    const uint64_t memory_bytes = join.memory_bytes;
    member.newcomer = seats.live() && !asked.has_seat;
    loads.Add(asked.incarnation, join.cores, memory_bytes, member.newcomer,
              WithDisk(asked.run.config, memory_bytes, join.disk_bytes) - memory_bytes);
  }
  if (asked.departs) {
    member.draining = true;
    if (join.plan_version < seats.plan().version) out->Send(member, seats.plan());
  }
  JoinReply reply{member.name, FormatConfig(WithNominalSizes(asked.run.base)),
                  asked.run.EpochSamples(), asked.run.train_checksum};
  if (join.role == Role::kServer) {
    asked.run.lease_keys.Of(asked.incarnation).PutInto(&reply);
  }
  out->Reply(member, asked.request.message, std::move(reply));
  return member;
}

// What is barred for a key; "" where members have none.
std::string Cluster::KeyOf(Incarnation member) const {
  return keyed_ ? fmt::format("key {:08x}", FingerprintOf(member)) : "";
}

// The same, unless other servers have the key too.
std::string Cluster::OwnKeyOf(Incarnation server) const {
  for (const Member* other : roster.Of(Role::kServer)) {
    if (other->incarnation != server && KeyOf(other->incarnation) == KeyOf(server)) return "";
  }
  return KeyOf(server);
}

void Cluster::MakeRoomForObserver(int64_t now_ms, Outbox* out) {
  const std::vector<const Member*> observers = std::as_const(roster).Of(Role::kObserver);
  if (observers.size() < kMostObservers) return;
  const Member* silent = *std::ranges::max_element(
      observers, {}, [&](const Member* observer) { return observer->life.SilentMs(now_ms); });
  out->Send(*silent, Shutdown{fmt::format("there are {} observers, which is the most; this one was "
                                          "silent the longest",
                                          kMostObservers),
                              static_cast<uint32_t>(ExitCode(ErrorKind::kTryLater))});
  roster.Remove(silent->incarnation);
}

void Cluster::TendApplicants(int64_t now_ms, Outbox* out) {
  for (const auto& [applicant, why] : admission.Expire(now_ms)) {
    out->Reply(applicant.peer, applicant.join.envelope.sequence,
               ErrorReply{ErrorCode::kRefused, why});
    if (std::get<Join>(applicant.join.body).name == kDoctorName) continue;
    out->Decide({event::kServerRefused, "a server is refused: " + why, {{"why", why}}}, now_ms);
  }
  out->SendProbes(admission.DueProbes(now_ms));
  resting_ = newcomer_rest.LeftMs(now_ms) > 0;
}

void Cluster::Drop(const Member& member, bool lost, const std::string& why, size_t leases,
                   int64_t now_ms, Outbox* out) {
  const Incarnation gone = member.incarnation;
  if (member.role == Role::kWorker) {
    out->Decide({event::kWorkerGone,
                 fmt::format("{} {}: {} returned", member.name, why, Plural(leases, "lease")),
                 {{"worker", member.name}, {"why", why}, {"leases", leases}}},
                now_ms);
    out->Depart(member, lost, why, now_ms);
    out->SendToSeated(roster, DropBatches{gone});
    if (fenced_.insert(gone).second) fenced_order_.push_back(gone);
    if (fenced_order_.size() > kMostFenced) {
      fenced_.erase(fenced_order_.front());
      fenced_order_.pop_front();
    }
  } else if (member.seated) {
    const std::vector<const Member*> owners = Owners();
    const bool has_slots = std::ranges::any_of(
        owners, [&](const Member* owner) { return owner->incarnation == gone; });
    seats.Lose(gone, !lost, now_ms);
    const bool is_new =
        loads.Unproven(gone) || (member.newcomer && now_ms - member.joined_ms < kProbationMs);
    if (is_new && has_slots) newcomer_rest.OnFailure(now_ms);
    resting_ = newcomer_rest.LeftMs(now_ms) > 0;
    // One that was left out is barred already.
    if (member.added && loads.Unproven(gone) &&
        admission.WhyBarred(member.address, now_ms).empty()) {
      const std::string line = fmt::format(
          "the server at {} has gone twice soon after it had joined; it is left out for some time",
          member.address);
      const std::string key = OwnKeyOf(gone);
      admission.Strike(member.address, line, now_ms);
      if (!key.empty()) admission.Strike(key, line, now_ms);
    }
    out->Depart(member, true, why, now_ms);
    Event event{event::kServerGone,
                fmt::format("{} at {} {}; ", member.name, member.address, why),
                {{"server", member.name}, {"address", member.address}, {"why", why}}};
    roster.Remove(gone);
    event.text += ReplacementLine();
    return out->Decide(std::move(event), now_ms);
  } else if (member.role == Role::kServer) {
    out->Notice({event::kSpareGone,
                 fmt::format("{} {}", member.name, why),
                 {{"server", member.name}, {"why", why}}},
                now_ms);
    out->Depart(member, lost, why, now_ms);
  }
  roster.Remove(gone);
}

void Cluster::LeaveOut(const std::vector<const Member*>& servers, const std::string& why,
                       int64_t now_ms, Outbox* out) {
  std::vector<std::string> keys;  // before any has gone: what they share is nobody's own
  for (const Member* server : servers) keys.push_back(OwnKeyOf(server->incarnation));
  for (size_t i = 0; i < servers.size(); ++i) {
    const Member* server = servers[i];
    const std::string line =
        fmt::format("the server at {} {}; it is left out", server->address, why);
    out->Send(*server, Shutdown{line, static_cast<uint32_t>(ExitCode(ErrorKind::kTryLater))});
    admission.Bar(server->address, line + " for some time", now_ms);
    if (!keys[i].empty()) admission.Bar(keys[i], line + " for some time", now_ms);
    Drop(*server, false, why, 0, now_ms, out);
  }
}

std::vector<const Member*> Cluster::Unready() const {
  std::vector<const Member*> unready = roster.Seated();
  const size_t seated = unready.size();
  std::erase_if(unready, [](const Member* server) { return server->ready; });
  if (unready.size() == seated) unready.clear();
  return unready;
}

std::vector<const Member*> Cluster::Unheard(int64_t silence_ms, int64_t now_ms) const {
  std::vector<const Member*> unheard = roster.Seated();
  const auto batch_ms = static_cast<int64_t>(kSlowBatches * roster.BatchMs());
  const int64_t newcomer_ms = std::max(kNewcomerSilenceMs, batch_ms);
  const std::vector<const Member*> owners = Owners();
  std::erase_if(unheard, [&](const Member* server) {
    const int64_t since_ms = std::max(server->joined_ms, server->ready_ms);
    if (!loads.Unproven(server->incarnation)) {
      return now_ms - std::max(since_ms, server->trained_ms) < silence_ms;
    }
    // A newcomer's own report of its work proves nothing; batches that are done with it do.
    const bool has_slots = std::ranges::count(owners, server) > 0;
    return now_ms - std::max(since_ms, has_slots ? seats.progress_ms() : 0) < newcomer_ms;
  });
  bool asking = false;
  for (const Member* worker : roster.Of(Role::kWorker)) {
    if (unheard.empty()) break;
    const Heartbeat& beat = worker->heartbeat;
    if (beat.batches_in_flight == 0 || worker->life.Suspect(now_ms)) continue;
    asking = true;
    const std::set<uint64_t> named(beat.silent_servers.begin(), beat.silent_servers.end());
    std::erase_if(unheard,
                  [&](const Member* server) { return !named.contains(server->incarnation.value); });
  }
  if (!asking) unheard.clear();
  return unheard;
}

std::vector<const Member*> Cluster::Owners() const { return InPlan(true); }

std::vector<const Member*> Cluster::InPlan(bool with_slots) const {
  const Plan& plan = seats.plan();
  const std::vector<bool> has_slots =
      ServersWith(plan, {0, static_cast<uint32_t>(plan.slot_owner.size())});
  std::vector<const Member*> found;
  for (size_t seat = 0; seat < plan.servers.size(); ++seat) {
    const Member* server = roster.Find(plan.servers[seat].incarnation);
    if (has_slots[seat] == with_slots && server != nullptr && server->seated) {
      found.push_back(server);
    }
  }
  return found;
}

std::vector<const Member*> Cluster::Unproven(bool with_slots) const {
  std::vector<const Member*> newcomers = InPlan(with_slots);
  std::erase_if(newcomers,
                [&](const Member* server) { return !loads.Unproven(server->incarnation); });
  return newcomers;
}

bool Cluster::HasUntried() const { return !Unproven(false).empty(); }

// One that answers everything, with refusals or nonsense, is not silent, and stops all others.
std::vector<const Member*> Cluster::Stalling(int64_t silence_ms, bool doubted, int64_t now_ms) {
  // While nobody has reported a batch nothing tells how long one takes.
  const auto batch_ms = static_cast<int64_t>(kSlowBatches * roster.BatchMs());
  const int64_t least_ms =
      seats.had_batch() ? std::max(silence_ms, batch_ms) : kUnknownBatches * silence_ms;
  // Workers give up what is refused: then only the other servers know of begun batches.
  const auto has_batches = [&](const Member* member) {
    return member->heartbeat.batches_in_flight > 0 && !loads.Unproven(member->incarnation);
  };
  const bool asking = std::ranges::any_of(roster.Of(Role::kWorker), has_batches) ||
                      std::ranges::any_of(roster.Seated(), has_batches);
  if (looked_ms_ <= seats.progress_ms()) asked_ms_ = 0;
  if (asking) asked_ms_ += now_ms - std::max(looked_ms_, seats.progress_ms());
  looked_ms_ = now_ms;
  if (!asking) return {};
  const int64_t named_ms = std::max(std::min(silence_ms, kNewcomerSilenceMs), batch_ms);
  std::vector<const Member*> newcomers = Unproven(true);
  std::erase_if(newcomers, [&](const Member* server) {
    const auto names = [&](const Member* worker) {
      return !worker->life.Suspect(now_ms) && Names(*worker, *server);
    };
    const bool named = doubted || std::ranges::any_of(roster.Of(Role::kWorker), names);
    const int64_t standing_ms = std::min(asked_ms_, now_ms - server->ready_ms);
    return standing_ms < (seats.had_batch() && named ? named_ms : least_ms);
  });
  return newcomers;
}

std::string Cluster::WaitingLine(const ClusterConfig& config) const {
  if (seats.lacking_bytes() > 0) {
    return fmt::format(
        "the servers' memory is {} MB less than their slots need (cluster.memory_mb); waiting for "
        "more servers",
        (seats.lacking_bytes() >> 20) + 1);
  }
  std::string missing;
  for (const size_t seat : seats.Vacant(roster)) {
    missing = Listed(missing, seats.plan().servers[seat].name);
  }
  if (!missing.empty()) return VacancyLine(missing);
  const size_t servers = roster.Count(Role::kServer);
  if (seats.live() && !roster.AllReady()) {
    for (const Member* server : roster.Seated()) {
      if (!server->ready) missing = Listed(missing, server->name);
    }
    return fmt::format("have {}, loading slots: {}", Plural(servers, "server"), missing);
  }
  if (!seats.live() && servers < config.servers) {
    return fmt::format("have {} of {} and {}, waiting for {}", servers,
                       Plural(config.servers, "server"),
                       Plural(roster.Count(Role::kWorker), "worker"),
                       Plural(config.servers - servers, "more server"));
  }
  return fmt::format("have {}, waiting for workers", Plural(servers, "server"));
}

Balancer::View Cluster::Loads(bool training) const {
  return {
      seats.plan(),     loads,   IncarnationsOf(seats.plan()), LeavingServers(seats.plan(), roster),
      roster.BatchMs(), training};
}

std::set<Incarnation> Cluster::ForgetTheGone() {
  const std::vector<Incarnation> planned = IncarnationsOf(seats.plan());
  std::set<Incarnation> servers(planned.begin(), planned.end());
  for (const Member* server : std::as_const(roster).Of(Role::kServer)) {
    servers.insert(server->incarnation);
  }
  loads.Keep(servers);
  return servers;
}

}  // namespace dslide
