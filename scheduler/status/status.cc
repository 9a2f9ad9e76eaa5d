#include "scheduler/status/status.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/security/token.h"
#include "scheduler/status/summary.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

const char* PhaseName(RunPhase phase) {
  switch (phase) {
    case RunPhase::kGathering:
      return "waiting for servers";
    case RunPhase::kLoading:
      return "servers load their slots";
    case RunPhase::kTraining:
      return "training";
    case RunPhase::kEvaluating:
      return "evaluating";
    case RunPhase::kFinished:
      return "finished";
  }
  return "";
}

std::string StateOf(const Member& member, int64_t now_ms) {
  if (member.life.Suspect(now_ms)) return "suspect";
  if (member.role == Role::kWorker) return "working";
  if (member.draining) return "leaving";
  if (!member.seated) return "spare";
  return member.ready ? "serving" : "loading";
}

double Mb(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Adds the load of a server.
void AddLoad(const RunStatus& status, const MemberStatus& server, OrderedJson* json) {
  if (server.seat) {
    (*json)["slots"] = status.seats[*server.seat].slots;
    (*json)["load"] = status.seats[*server.seat].load;
    if (*server.seat < status.decisions.servers.size()) {
      (*json)["share"] = status.decisions.servers[*server.seat].share;
    }
  }
  const ServerFigures& measured = *server.figures;
  (*json)["capacity"] = measured.capacity;
  (*json)["busy"] = measured.busy;
  (*json)["executor_skew"] = measured.executor_skew;
  (*json)["memory_used_mb"] = Mb(measured.memory_used);
  (*json)["memory_limit_mb"] = Mb(measured.memory_limit);
}

using DecisionsByName = std::map<std::string_view, const WorkerDecision*>;

DecisionsByName ByName(const std::vector<WorkerDecision>& decisions) {
  DecisionsByName by_name;
  for (const WorkerDecision& decision : decisions) by_name[decision.name] = &decision;
  return by_name;
}

void AddWork(const RunStatus& status, const DecisionsByName& decisions, const MemberStatus& worker,
             OrderedJson* json) {
  const Member& member = worker.member;
  const double batch = status.run->config.train.batch;
  (*json)["samples_per_second"] = batch * worker.batches_per_second;
  (*json)["longest_batch_ms"] = member.heartbeat.longest_batch_us / 1000.0;
  const auto found = decisions.find(member.name);
  if (found == decisions.end()) return;
  const WorkerDecision& decision = *found->second;
  (*json)["lease_batches"] = decision.lease_batches;
  (*json)["in_flight_cap"] = decision.in_flight_cap;
  (*json)["straggler"] = decision.straggler;
}

OrderedJson MemberJson(const RunStatus& status, const DecisionsByName& decisions,
                       const MemberStatus& of) {
  const Member& member = of.member;
  const Heartbeat& beat = member.heartbeat;
  OrderedJson json;
  json["name"] = member.name;
  json["life"] = fmt::format("{:016x}", LifeOf(member.incarnation));
  json["role"] = member.role == Role::kServer ? "server" : "worker";
  json["address"] = member.address;
  json["cpu_seconds"] = beat.cpu_seconds;
  json["peak_rss_mb"] = static_cast<double>(beat.peak_rss_bytes) / (1 << 20);
  json["bytes_sent"] = beat.bytes_sent;
  json["bytes_received"] = beat.bytes_received;
  json["state"] = StateOf(member, status.now_ms);
  json["silent_s"] = static_cast<double>(member.life.SilentMs(status.now_ms)) / 1000.0;
  json["batches_in_flight"] = beat.batches_in_flight;
  json["malformed"] = beat.malformed;
  json["samples"] = member.samples;
  if (beat.hook_runs > 0) {
    json["hook_runs"] = beat.hook_runs;
    json["hook_failures"] = beat.hook_failures;
  }
  if (member.role == Role::kWorker) {
    json["in_flight_limit"] = beat.in_flight_limit;
    json["round_trip_ms"] = beat.round_trip_us / 1000.0;
    json["link_mbit_per_second"] = static_cast<double>(beat.bits_per_second) / 1e6;
    json["int8_links"] = beat.int8_links;
    AddWork(status, decisions, of, &json);
  } else {
    AddLoad(status, of, &json);
    if (!beat.bounds.empty()) json["bounds"] = beat.bounds;
    if (beat.disk_sync_us > 0) {
      json["disk_mb_per_second"] = Mb(beat.disk_bytes_per_second);
      json["disk_sync_ms"] = beat.disk_sync_us / 1000.0;
    }
    if (const RowsOnDisk& on_disk = beat.on_disk; on_disk.bytes > 0) {
      json["tier_mb"] = Mb(on_disk.bytes);
      json["tier_hits"] = member.memory_hits;
      json["tier_rows"] = on_disk.rows;
      json["tier_misses"] = on_disk.misses;
    }
  }
  if (member.role == Role::kServer && beat.bucket_largest > 0) {
    json["bucket_mean"] = beat.bucket_mean;
    json["bucket_p99"] = beat.bucket_p99;
    json["bucket_largest"] = beat.bucket_largest;
    json["bucket_skew"] =
        static_cast<double>(beat.bucket_largest) / std::max(1.0f, beat.bucket_mean);
    json["hash_round"] = beat.hash_round;
    json["bucket_empty_share"] = beat.bucket_empty_share;
    json["rehash_lag_batches"] = beat.rehash_lag_batches;
  }
  return json;
}

double SinceStart(const RunStatus& status, int64_t at_ms) {
  return static_cast<double>(at_ms - status.started_ms) / 1000.0;
}

void AddCare(const CheckpointCare& care, OrderedJson* json) {
  if (!care.problem.empty()) (*json)["checkpoint_problem"] = care.problem;
  if (!care.hook) return;
  const CheckpointHook::Figures& hook = *care.hook;
  (*json)["hook"] = {{"runs", hook.runs}, {"failures", hook.failures}, {"in_a_row", hook.in_a_row},
                     {"why", hook.why},   {"done", hook.done},         {"running", hook.running}};
}

// Adds the plan's servers that are not in the roster.
void AddVacantSeats(const RunStatus& status, OrderedJson* members) {
  for (size_t i = 0; i < status.seats.size(); ++i) {
    if (!status.seats[i].vacant) continue;
    const PlanServer& server = status.plan.servers[i];
    members->push_back({{"name", server.name},
                        {"role", "server"},
                        {"address", server.address},
                        {"state", "missing"},
                        {"slots", status.seats[i].slots}});
  }
}

}  // namespace

bool Waits(const RunStatus& status) {
  return status.phase < RunPhase::kTraining ||
         (status.phase < RunPhase::kFinished && status.Count(Role::kWorker) == 0);
}

std::string StatusJson(const RunStatus& status, const ProgressMeter::Reading& reading,
                       const LearningCurve& curve, const std::string& line,
                       const StatusExtras& extras) {
  const TrainingStats here = status.work;
  OrderedJson json;
  if (extras.time_s != 0) json["time"] = extras.time_s;
  if (!extras.version.empty()) json["version"] = extras.version;
  if (extras.ledger_sync_us > 0) json["ledger_sync_ms"] = extras.ledger_sync_us / 1000.0;
  json["phase"] = PhaseName(status.phase);
  json["progress"] = status.progress;
  json["line"] = line;
  const bool waits = Waits(status);
  json["waits"] = waits;
  json["eta_s"] = waits ? -1.0 : reading.eta_seconds;
  json["epoch"] = reading.epoch;
  json["epochs"] = reading.epochs;
  if (reading.is_stream) {
    json["stream"] = {{"awaits_segment", reading.awaits_segment},
                      {"labels", reading.labels},
                      {"features", reading.features}};
  }
  if (reading.recent.samples > 0) json["loss"] = reading.recent.Loss();
  if (reading.p_at_1) json["p_at_1"] = *reading.p_at_1;
  json["plan_version"] = status.plan.version;
  json["recoveries"] = status.recoveries;
  json["offences"] = status.offences;
  AddAudits(status, &json);
  json["evaluations"] = OrderedJson::array();
  for (const EvaluationResult& e : curve.Points()) {
    json["evaluations"].push_back({{"epochs_trained", e.epoch},
                                   {"final", e.set == EvaluationSet::kTest},
                                   {"p_at_1", e.metrics.precision[0]},
                                   {"p_at_3", e.metrics.precision[2]},
                                   {"p_at_5", e.metrics.precision[4]},
                                   {"samples", e.metrics.samples},
                                   {"without_labels", e.metrics.without_labels}});
  }
  json["best_p_at_1"] = curve.best_p_at_1();
  if (status.last_held_out) {
    const EvaluationResult& held_out = *status.last_held_out;
    json["held_out"] = {{"epochs_trained", held_out.epoch},
                        {"p_at_1", held_out.metrics.precision[0]},
                        {"ndcg_at_5", held_out.metrics.ndcg[4]},
                        {"samples", held_out.metrics.samples}};
  }
  OrderedJson& figures = json["figures"];
  figures["samples"] = status.samples;
  figures["samples per second"] = waits ? 0.0 : reading.samples_per_second;
  figures["loss"] = here.Loss();
  figures["neurons scored per sample"] = here.ActiveNeuronsPerSample();
  figures["distinct neurons per batch"] = here.ActiveRowsPerBatch();
  figures["bytes per sample"] = here.BytesSentPerSample() + here.BytesReceivedPerSample();
  if (here.measured_tail()) figures["error of the normaliser"] = here.TailError();
  if (here.measured_recall()) {
    figures["recall@10 of the active set"] = here.RecallSet();
    if (here.RecallHash() > 0) {
      figures["recall@10 of the sample's hash candidates"] = here.RecallHash();
    }
    figures["recall@10 of as many uniform draws"] = here.RecallUniform();
  }
  figures["checkpoint"] = status.last_checkpoint.empty() ? "none yet" : status.last_checkpoint;
  json["imbalance"] = status.imbalance;
  const MoveTotals& moves = status.moves;
  json["moves"] = {{"plans", moves.plans},
                   {"slots_moved", moves.slots},
                   {"bytes_moved", moves.bytes},
                   {"slot_bytes_moved", moves.slot_bytes},
                   {"in_progress", status.moving_slots},
                   {"longest_stall_ms", moves.longest_stall_us / 1000.0}};
  json["decisions"] = OrderedJson::array();
  for (const Decided& decided : status.journal.decisions()) {
    json["decisions"].push_back(EventJson({SinceStart(status, decided.at_ms), decided.event}));
    if (decided.tuning) json["decisions"].back()["tuning"] = true;
  }
  json["events"] = OrderedJson::array();
  if (extras.events != nullptr) {
    const auto& events = *extras.events;
    for (size_t i = events.size() - std::min(events.size(), kMostEvents); i < events.size(); ++i) {
      json["events"].push_back(EventJson(events[i]));
    }
  }
  if (extras.checkpoints != nullptr) AddCare(*extras.checkpoints, &json);
  json["departures"] = OrderedJson::array();
  for (const Departure& gone : status.journal.departures()) {
    json["departures"].push_back({{"name", gone.name},
                                  {"life", fmt::format("{:016x}", LifeOf(gone.incarnation))},
                                  {"role", gone.role == Role::kServer ? "server" : "worker"},
                                  {"at_s", SinceStart(status, gone.at_ms)},
                                  {"lost", gone.lost},
                                  {"why", gone.why}});
  }
  json["contributions"] = OrderedJson::array();
  for (const auto& total :
       extras.contributions.first(std::min(kMostContributions, extras.contributions.size()))) {
    json["contributions"].push_back(
        {{"name", total.contributor}, {"samples", total.samples}, {"today", total.today}});
  }
  if (!extras.few_contributors.empty()) json["few_contributors"] = extras.few_contributors;
  json["members"] = OrderedJson::array();
  AddVacantSeats(status, &json["members"]);
  const DecisionsByName decisions = ByName(status.decisions.workers);
  for (const MemberStatus& member : status.members) {
    json["members"].push_back(MemberJson(status, decisions, member));
    if (!extras.key_of || member.member.role != Role::kServer) continue;
    const std::string key = extras.key_of(member.member.incarnation);
    if (!key.empty()) json["members"].back()["key"] = key;
  }
  return TextOf(json);
}

std::string LoadsRecord(const RunStatus& status, double elapsed_s) {
  OrderedJson json;
  json["elapsed_s"] = elapsed_s;
  json["plan_version"] = status.plan.version;
  json["imbalance"] = status.imbalance;
  json["servers"] = OrderedJson::array();
  for (size_t i = 0; i < status.seats.size(); ++i) {
    const auto server = std::find_if(status.members.begin(), status.members.end(),
                                     [&](const MemberStatus& member) { return member.seat == i; });
    if (server == status.members.end()) continue;
    json["servers"].push_back({{"name", status.plan.servers[i].name},
                               {"slots", status.seats[i].slots},
                               {"load", status.seats[i].load},
                               {"capacity", server->figures->capacity},
                               {"busy", server->figures->busy},
                               {"memory_used_mb", Mb(server->figures->memory_used)}});
  }
  return TextOf(json);
}

}  // namespace dslide
