#include "scheduler/status/prometheus_text.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace dslide {
namespace {

class Metrics {
 public:
  auto& Gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
  }
  auto& Counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
  }
  void Gauge(const char* name, const char* help, double value) {
    Gauges(name, help).Add({}).Set(value);
  }
  // One that only grows.
  void Counter(const char* name, const char* help, double value) {
    Counters(name, help).Add({}).Increment(value);
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

 private:
  prometheus::Registry registry_;
};

void AddProgress(const RunStatus& status, const ProgressMeter::Reading& reading, Metrics* metrics) {
  metrics->Gauge("dslide_progress_ratio", "Share of all epochs that is trained", status.progress);
  metrics->Gauge("dslide_samples", "Samples that count in this run",
                 static_cast<double>(status.samples));
  metrics->Counter("dslide_samples_total", "Samples trained since the scheduler started",
                   static_cast<double>(status.work.samples));
  metrics->Gauge("dslide_samples_per_second", "Recent speed of training",
                 Waits(status) ? 0 : reading.samples_per_second);
  if (reading.eta_seconds >= 0 && !Waits(status))
    metrics->Gauge("dslide_eta_seconds", "Expected time to the end", reading.eta_seconds);
  if (reading.recent.samples > 0)
    metrics->Gauge("dslide_loss", "Recent mean training loss per sample", reading.recent.Loss());
  if (status.last_evaluation) {
    metrics->Gauge("dslide_precision_at_1_ratio", "P@1 of the last evaluation",
                   status.last_evaluation->metrics.precision[0]);
  }
  if (status.last_held_out) {
    metrics->Gauge("dslide_held_out_precision_at_1_ratio",
                   "P@1 of the last evaluation on held-out samples",
                   status.last_held_out->metrics.precision[0]);
  }
}

void AddCosts(const RunStatus& status, Metrics* metrics) {
  const TrainingStats here = status.work;
  metrics->Gauge("dslide_active_rows_per_batch", "Distinct output neurons per batch",
                 here.ActiveRowsPerBatch());
  metrics->Gauge("dslide_sent_bytes_per_sample", "From workers to servers",
                 here.BytesSentPerSample());
  metrics->Gauge("dslide_received_bytes_per_sample", "From servers to workers",
                 here.BytesReceivedPerSample());
  metrics->Gauge("dslide_lease_bytes_per_sample",
                 "From the scheduler to workers, in training leases",
                 status.lease_bytes_per_sample);
  auto& by_message = metrics->Gauges("dslide_message_bytes_per_sample",
                                     "Between workers and servers, by kind of message");
  for (size_t kind = 0; kind < here.bytes_by_kind.size(); ++kind) {
    if (here.bytes_by_kind[kind] == 0) continue;
    by_message.Add({{"message", std::string(BodyName(kind))}}).Set(here.BytesPerSample(kind));
  }
  metrics->Gauge("dslide_tail_error_ratio", "Relative standard error of the softmax normaliser",
                 here.TailError());
  metrics->Gauge("dslide_active_set_recall_ratio", "Share of the true top 10 in the active set",
                 here.RecallSet());
  metrics->Gauge("dslide_hash_recall_ratio",
                 "Share of the true top 10 in the sample's hash candidates", here.RecallHash());
}

// What happened since this scheduler started.
void AddEvents(const RunStatus& status, Metrics* metrics) {
  metrics->Counter("dslide_slots_moved_total", "Slots that moved between servers",
                   static_cast<double>(status.moves.slots));
  metrics->Counter("dslide_moved_bytes_total", "Sent between servers for moved slots",
                   static_cast<double>(status.moves.bytes));
  metrics->Counter("dslide_recoveries_total", "Returns to a checkpoint", status.recoveries);
  metrics->Counter("dslide_offences_total", "What members have done that no honest one does",
                   static_cast<double>(status.offences));
  auto& audits =
      metrics->Counters("dslide_audits_total", "Batches that others did again, by outcome");
  audits.Add({{"outcome", "majority"}}).Increment(static_cast<double>(status.trust.done));
  audits.Add({{"outcome", "skipped"}}).Increment(static_cast<double>(status.trust.skipped));
  audits.Add({{"outcome", "undecided"}}).Increment(static_cast<double>(status.trust.undecided));
  metrics->Counter("dslide_liars_total", "Workers that audits have found to lie",
                   static_cast<double>(status.trust.liars.size()));
}

// Hooks: of the scheduler by the label member="scheduler", of servers by their names.
void AddCare(const RunStatus& status, const CheckpointCare& care, Metrics* metrics) {
  metrics->Gauge("dslide_checkpoints_blocked", "1 while checkpoint.quota_mb allows no checkpoint",
                 care.problem.empty() ? 0 : 1);
  auto& runs = metrics->Counters("dslide_hook_runs_total", "Runs of the hook after checkpoints");
  auto& failures = metrics->Counters("dslide_hook_failures_total", "Of those, failed");
  const auto add = [&](const std::string& member, uint32_t ran, uint32_t failed) {
    runs.Add({{"member", member}}).Increment(ran);
    failures.Add({{"member", member}}).Increment(failed);
  };
  if (care.hook) add("scheduler", care.hook->runs, care.hook->failures);
  for (const MemberStatus& one : status.members) {
    const Heartbeat& beat = one.member.heartbeat;
    if (beat.hook_runs > 0) add(one.member.name, beat.hook_runs, beat.hook_failures);
  }
}

void AddServers(const RunStatus& status, Metrics* metrics) {
  auto& slots = metrics->Gauges("dslide_server_slots", "Slots of the server");
  auto& load =
      metrics->Gauges("dslide_server_load_ratio", "How busy the server is, relative to the mean");
  auto& busy =
      metrics->Gauges("dslide_server_busy_ratio",
                      "Share of the time that the server's executors work, over some 10 s");
  auto& used = metrics->Gauges("dslide_server_memory_bytes",
                               "Memory of the server's rows, hash tables and kept replies");
  auto& limit = metrics->Gauges("dslide_server_memory_limit_bytes",
                                "Memory limit of the server; 0: not known");
  auto& tier = metrics->Gauges("dslide_server_tier_bytes",
                               "Files of the disk tier of the server; 0: it is off");
  auto& rows = metrics->Counters("dslide_server_tier_rows_total",
                                 "Rows that batches needed of a server with the disk tier");
  auto& misses = metrics->Counters("dslide_server_tier_misses_total",
                                   "Of these, rows that were read from the disk");
  for (const MemberStatus& server : status.members) {
    if (!server.figures) continue;
    const Heartbeat& beat = server.member.heartbeat;
    const prometheus::Labels labels = {{"server", server.member.name}};
    const SeatStatus seat = server.seat ? status.seats[*server.seat] : SeatStatus();
    slots.Add(labels).Set(static_cast<double>(seat.slots));
    load.Add(labels).Set(seat.load);
    busy.Add(labels).Set(server.figures->busy);
    used.Add(labels).Set(static_cast<double>(server.figures->memory_used));
    limit.Add(labels).Set(static_cast<double>(server.figures->memory_limit));
    tier.Add(labels).Set(static_cast<double>(beat.on_disk.bytes));
    if (beat.on_disk.bytes == 0) continue;
    rows.Add(labels).Increment(static_cast<double>(beat.on_disk.rows));
    misses.Add(labels).Increment(static_cast<double>(beat.on_disk.misses));
  }
}

}  // namespace

std::string PrometheusText(const RunStatus& status, const ProgressMeter::Reading& reading,
                           const CheckpointCare& checkpoints, const EventCounts& events) {
  Metrics metrics;
  auto& by_code = metrics.Counters("dslide_events_total", "Events of the run (schema/EVENTS.md)");
  for (const auto& [code, count] : events) {
    by_code.Add({{"code", std::string(code)}}).Increment(static_cast<double>(count));
  }
  AddCare(status, checkpoints, &metrics);
  AddProgress(status, reading, &metrics);
  AddCosts(status, &metrics);
  AddEvents(status, &metrics);
  AddServers(status, &metrics);
  metrics.Gauge("dslide_imbalance_ratio",
                "Load over capacity of the busiest server, relative to the mean", status.imbalance);
  metrics.Gauge("dslide_plan_version", "Version of the slot plan in force", status.plan.version);
  metrics.Gauge("dslide_servers", "Servers in the roster",
                static_cast<double>(status.Count(Role::kServer)));
  metrics.Gauge("dslide_workers", "Workers in the roster",
                static_cast<double>(status.Count(Role::kWorker)));
  metrics.Gauge("dslide_training", "1 while batches are leased, else 0",
                status.phase == RunPhase::kTraining ? 1 : 0);
  return metrics.Text();
}

}  // namespace dslide
