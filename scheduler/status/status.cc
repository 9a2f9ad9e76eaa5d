#include "scheduler/status/status.h"

#include <fmt/core.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dslide {
namespace {

using Json = nlohmann::ordered_json;

const char* PhaseName(SchedulerCore::Phase phase) {
  switch (phase) {
    case SchedulerCore::Phase::kGathering:
      return "waiting for servers";
    case SchedulerCore::Phase::kLoading:
      return "servers load their slots";
    case SchedulerCore::Phase::kTraining:
      return "training";
    case SchedulerCore::Phase::kEvaluating:
      return "evaluating";
    case SchedulerCore::Phase::kFinished:
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

std::string Text(Incarnation incarnation) { return fmt::format("{:016x}", incarnation.value); }

double Mb(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// The slots and the load of each of the plan's servers, computed once for all.
struct PlanLoads {
  explicit PlanLoads(const SchedulerCore& core)
      : slots(core.plan().servers.size()), loads(core.RelativeLoads()) {
    for (const uint16_t owner : core.plan().slot_owner) slots[owner]++;
  }
  std::vector<size_t> slots;  // [plan's servers]
  std::vector<double> loads;  // [plan's servers]
};

// Adds the load of a server.
void AddLoad(const SchedulerCore& core, const PlanLoads& planned, const Member& member,
             Json* json) {
  const Plan& plan = core.plan();
  const SlotLoads& measured = core.loads();
  for (size_t i = 0; i < plan.servers.size(); ++i) {
    if (plan.servers[i].incarnation != member.incarnation) continue;
    (*json)["slots"] = planned.slots[i];
    (*json)["load"] = planned.loads[i];
    if (i < core.strategy().servers.size()) {
      (*json)["share"] = core.strategy().servers[i].share;
    }
  }
  (*json)["capacity"] = measured.Capacity(member.incarnation);
  (*json)["busy"] = measured.BusyShare(member.incarnation);
  (*json)["executor_skew"] = measured.ExecutorSkew(member.incarnation);
  (*json)["memory_used_mb"] = Mb(measured.MemoryUsed(member.incarnation));
  (*json)["memory_limit_mb"] = Mb(measured.MemoryLimit(member.incarnation));
}

void AddWork(const SchedulerCore& core, const Member& member, int64_t now_ms, Json* json) {
  const double batch = core.config().train.batch;
  (*json)["samples_per_second"] = batch * core.BatchesPerSecond(member.incarnation, now_ms);
  (*json)["longest_batch_ms"] = member.heartbeat.longest_batch_us / 1000.0;
  for (const WorkerDecision& decision : core.strategy().workers) {
    if (decision.name != member.name) continue;
    (*json)["lease_batches"] = decision.lease_batches;
    (*json)["in_flight_cap"] = decision.in_flight_cap;
    (*json)["straggler"] = decision.straggler;
  }
}

Json MemberJson(const SchedulerCore& core, const PlanLoads& planned, const Member& member,
                int64_t now_ms) {
  const Heartbeat& beat = member.heartbeat;
  Json json;
  json["name"] = member.name;
  json["incarnation"] = Text(member.incarnation);
  json["role"] = member.role == Role::kServer ? "server" : "worker";
  json["address"] = member.address;
  json["cpu_seconds"] = beat.cpu_seconds;
  json["peak_rss_mb"] = static_cast<double>(beat.peak_rss_bytes) / (1 << 20);
  json["bytes_sent"] = beat.bytes_sent;
  json["bytes_received"] = beat.bytes_received;
  json["state"] = StateOf(member, now_ms);
  json["silent_s"] = static_cast<double>(member.life.SilentMs(now_ms)) / 1000.0;
  json["batches_in_flight"] = beat.batches_in_flight;
  json["malformed"] = beat.malformed;
  json["samples"] = member.samples;
  if (member.role == Role::kWorker) {
    json["in_flight_limit"] = beat.in_flight_limit;
    json["round_trip_ms"] = beat.round_trip_us / 1000.0;
    json["link_mbit_per_second"] = static_cast<double>(beat.bits_per_second) / 1e6;
    json["int8_links"] = beat.int8_links;
    AddWork(core, member, now_ms, &json);
  } else {
    AddLoad(core, planned, member, &json);
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

double SinceStart(const SchedulerCore& core, int64_t at_ms) {
  return static_cast<double>(at_ms - core.started_ms()) / 1000.0;
}

// Adds the plan's servers that are not in the roster.
void AddVacantSeats(const SchedulerCore& core, const PlanLoads& planned, Json* members) {
  const Plan& plan = core.plan();
  for (size_t i = 0; i < plan.servers.size(); ++i) {
    const PlanServer& server = plan.servers[i];
    if (core.roster().Find(server.incarnation) != nullptr) continue;
    members->push_back({{"name", server.name},
                        {"role", "server"},
                        {"address", server.address},
                        {"state", "missing"},
                        {"slots", planned.slots[i]}});
  }
}

}  // namespace

std::string StatusJson(const SchedulerCore& core, const ProgressMeter::Reading& reading,
                       const LearningCurve& curve, const std::string& line, int64_t now_ms) {
  const TrainingStats here = core.work();
  Json json;
  json["phase"] = PhaseName(core.phase());
  json["progress"] = core.Progress();
  json["line"] = line;
  json["eta_s"] = reading.eta_seconds;
  json["epoch"] = reading.epoch;
  json["epochs"] = reading.epochs;
  if (reading.recent.samples > 0) json["loss"] = reading.recent.Loss();
  if (reading.p_at_1) json["p_at_1"] = *reading.p_at_1;
  json["plan_version"] = core.plan_version();
  json["recoveries"] = core.recoveries();
  json["evaluations"] = Json::array();
  for (const EvaluationResult& e : curve.Points()) {
    json["evaluations"].push_back({{"epochs_trained", e.epoch},
                                   {"final", e.final},
                                   {"p_at_1", e.metrics.precision[0]},
                                   {"p_at_3", e.metrics.precision[2]},
                                   {"p_at_5", e.metrics.precision[4]}});
  }
  json["best_p_at_1"] = curve.best_p_at_1();
  Json& figures = json["figures"];
  figures["samples"] = core.counted_samples();
  figures["samples per second"] = reading.samples_per_second;
  figures["loss"] = here.Loss();
  figures["neurons scored per sample"] = here.ActiveNeuronsPerSample();
  figures["distinct neurons per batch"] = here.ActiveRowsPerBatch();
  figures["bytes per sample"] = here.BytesSentPerSample() + here.BytesReceivedPerSample();
  if (here.probed > 0) {
    figures["recall@10 of the active set"] = here.RecallSet();
    figures["recall@10 of the sample's hash candidates"] = here.RecallHash();
    figures["recall@10 of as many uniform draws"] = here.RecallUniform();
  }
  figures["checkpoint"] = core.last_checkpoint().empty() ? "none yet" : core.last_checkpoint();
  json["imbalance"] = core.Imbalance();
  const MoveTotals& moves = core.moves();
  json["moves"] = {{"plans", moves.plans},
                   {"slots_moved", moves.slots},
                   {"bytes_moved", moves.bytes},
                   {"slot_bytes_moved", moves.slot_bytes},
                   {"in_progress", core.MovingSlots()},
                   {"longest_stall_ms", moves.longest_stall_us / 1000.0}};
  json["decisions"] = Json::array();
  for (const DecisionLine& line_of : core.journal().decisions()) {
    json["decisions"].push_back(
        {{"at_s", SinceStart(core, line_of.at_ms)}, {"text", line_of.text}});
  }
  json["departures"] = Json::array();
  for (const Departure& gone : core.journal().departures()) {
    json["departures"].push_back({{"name", gone.name},
                                  {"incarnation", Text(gone.incarnation)},
                                  {"role", gone.role == Role::kServer ? "server" : "worker"},
                                  {"at_s", SinceStart(core, gone.at_ms)},
                                  {"lost", gone.lost},
                                  {"why", gone.why}});
  }
  json["members"] = Json::array();
  const PlanLoads planned(core);
  AddVacantSeats(core, planned, &json["members"]);
  for (const Role role : {Role::kServer, Role::kWorker}) {
    for (const Member* member : core.roster().Of(role)) {
      json["members"].push_back(MemberJson(core, planned, *member, now_ms));
    }
  }
  // An address or a path may not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string LoadsRecord(const SchedulerCore& core, double elapsed_s) {
  const Plan& plan = core.plan();
  const PlanLoads planned(core);
  Json json;
  json["elapsed_s"] = elapsed_s;
  json["plan_version"] = plan.version;
  json["imbalance"] = core.Imbalance();
  json["servers"] = Json::array();
  for (size_t i = 0; i < plan.servers.size(); ++i) {
    const Incarnation server = plan.servers[i].incarnation;
    if (core.roster().Find(server) == nullptr) continue;
    json["servers"].push_back({{"name", plan.servers[i].name},
                               {"slots", planned.slots[i]},
                               {"load", planned.loads[i]},
                               {"capacity", core.loads().Capacity(server)},
                               {"busy", core.loads().BusyShare(server)},
                               {"memory_used_mb", Mb(core.loads().MemoryUsed(server))}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

// One gauge for each server, by its name.
void AddServerGauges(const SchedulerCore& core, prometheus::Registry* registry) {
  auto family = [registry](const char* name, const char* help) -> auto& {
    return prometheus::BuildGauge().Name(name).Help(help).Register(*registry);
  };
  auto& slots = family("dslide_server_slots", "Slots of the server");
  auto& load =
      family("dslide_server_load", "Load over capacity of the server, relative to the mean");
  auto& busy =
      family("dslide_server_busy_ratio", "Share of the time that the server's executors work");
  auto& used = family("dslide_server_memory_bytes", "Memory of the server's rows and hash tables");
  auto& limit =
      family("dslide_server_memory_limit_bytes", "Memory limit of the server; 0: not known");
  const Plan& plan = core.plan();
  const PlanLoads planned(core);
  for (const Member* server : core.roster().Of(Role::kServer)) {
    const prometheus::Labels labels = {{"server", server->name}};
    const Incarnation id = server->incarnation;
    const auto seat = std::find_if(plan.servers.begin(), plan.servers.end(),
                                   [id](const PlanServer& s) { return s.incarnation == id; });
    const auto index = static_cast<size_t>(seat - plan.servers.begin());
    const bool seated = seat != plan.servers.end();
    slots.Add(labels).Set(seated ? static_cast<double>(planned.slots[index]) : 0);
    load.Add(labels).Set(seated ? planned.loads[index] : 0);
    busy.Add(labels).Set(core.loads().BusyShare(id));
    used.Add(labels).Set(static_cast<double>(core.loads().MemoryUsed(id)));
    limit.Add(labels).Set(static_cast<double>(core.loads().MemoryLimit(id)));
  }
}

}  // namespace

std::string PrometheusText(const SchedulerCore& core, const ProgressMeter::Reading& reading) {
  prometheus::Registry registry;
  const auto gauge = [&](const char* name, const char* help, double value) {
    prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({}).Set(value);
  };
  const TrainingStats here = core.work();
  gauge("dslide_progress_ratio", "Share of all epochs that is trained", core.Progress());
  gauge("dslide_samples", "Samples trained in this run",
        static_cast<double>(core.counted_samples()));
  gauge("dslide_samples_per_second", "Recent speed of training", reading.samples_per_second);
  gauge("dslide_loss", "Recent mean training loss per sample", reading.recent.Loss());
  gauge("dslide_active_rows_per_batch", "Distinct output neurons per batch",
        here.ActiveRowsPerBatch());
  gauge("dslide_bytes_sent_per_sample", "Bytes per sample from workers to servers",
        here.BytesSentPerSample());
  gauge("dslide_bytes_received_per_sample", "Bytes per sample from servers to workers",
        here.BytesReceivedPerSample());
  gauge("dslide_lease_bytes_per_sample",
        "Bytes per sample from the scheduler to workers, in training leases",
        core.LeaseBytesPerSample());
  auto& by_message = prometheus::BuildGauge()
                         .Name("dslide_bytes_per_sample")
                         .Help("Bytes per sample between workers and servers, by kind of message")
                         .Register(registry);
  for (size_t kind = 0; kind < here.bytes_by_kind.size(); ++kind) {
    if (here.bytes_by_kind[kind] == 0) continue;
    by_message.Add({{"message", std::string(BodyName(kind))}}).Set(here.BytesPerSample(kind));
  }
  gauge("dslide_active_set_recall_at_10", "Share of the true top 10 in the active set",
        here.RecallSet());
  gauge("dslide_hash_recall_at_10", "Share of the true top 10 in the sample's hash candidates",
        here.RecallHash());
  gauge("dslide_imbalance", "Load over capacity of the busiest server, relative to the mean",
        core.Imbalance());
  gauge("dslide_slots_moved", "Slots that moved between servers",
        static_cast<double>(core.moves().slots));
  gauge("dslide_moved_bytes", "Bytes sent between servers for moved slots",
        static_cast<double>(core.moves().bytes));
  gauge("dslide_plan_version", "Version of the slot plan in force", core.plan_version());
  gauge("dslide_recoveries", "Returns to a checkpoint since the scheduler started",
        core.recoveries());
  AddServerGauges(core, &registry);
  gauge("dslide_servers", "Servers in the roster",
        static_cast<double>(core.roster().Count(Role::kServer)));
  gauge("dslide_workers", "Workers in the roster", static_cast<double>(core.WorkerCount()));
  if (core.last_evaluation()) {
    gauge("dslide_p_at_1", "P@1 of the last evaluation",
          core.last_evaluation()->metrics.precision[0]);
  }
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

}  // namespace dslide
