#include "scheduler/status/summary.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/data/measures/data_facts.h"
#include "common/data/measures/metrics.h"
#include "common/data/measures/sample_lengths.h"
#include "common/run/slot_rows.h"
#include "scheduler/base/events.h"
#include "scheduler/status/history.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

void AddMetrics(const RankingMetrics& metrics, OrderedJson* json) {
  for (const int k : {1, 3, 5}) {
    (*json)["p_at_" + std::to_string(k)] = metrics.precision[k - 1];
    (*json)["ndcg_at_" + std::to_string(k)] = metrics.ndcg[k - 1];
    (*json)["psp_at_" + std::to_string(k)] = metrics.propensity_precision[k - 1];
  }
  (*json)["evaluated_samples"] = metrics.samples;
  (*json)["evaluated_without_labels"] = metrics.without_labels;
}

void AddStats(const TrainingStats& stats, OrderedJson* json) {
  (*json)["loss"] = stats.Loss();
  (*json)["active_neurons_per_sample"] = stats.ActiveNeuronsPerSample();
  (*json)["active_rows_per_batch"] = stats.ActiveRowsPerBatch();
  (*json)["bytes_sent_per_sample"] = stats.BytesSentPerSample();
  (*json)["bytes_received_per_sample"] = stats.BytesReceivedPerSample();
  OrderedJson& by_message = (*json)["bytes_per_sample_by_message"];
  by_message = OrderedJson::object();
  for (size_t kind = 0; kind < stats.bytes_by_kind.size(); ++kind) {
    if (stats.bytes_by_kind[kind] == 0) continue;
    by_message[std::string(BodyName(kind))] = stats.BytesPerSample(kind);
  }
  if (stats.measured_tail()) (*json)["tail_error"] = stats.TailError();
  if (!stats.measured_recall()) return;
  (*json)["active_set_recall_at_10"] = stats.RecallSet();
  (*json)["hash_recall_at_10"] = stats.RecallHash();
  (*json)["uniform_recall_at_10"] = stats.RecallUniform();
}

// The use of the processes until now, by role: how many there are, CPU time of all that the run has
// had, memory of the largest.
OrderedJson ProcessesJson(const RunStatus& status, const ProcessUsage& own) {
  const auto role = [](size_t count, double cpu_seconds, uint64_t bytes) {
    return OrderedJson{{"count", count},
                       {"cpu_seconds", cpu_seconds},
                       {"peak_rss_mb", static_cast<double>(bytes) / (1 << 20)}};
  };
  const RoleUsage &servers = status.of_servers, &workers = status.of_workers;
  return {
      {"server", role(status.Count(Role::kServer), servers.cpu_seconds, servers.largest_rss_bytes)},
      {"worker", role(status.Count(Role::kWorker), workers.cpu_seconds, workers.largest_rss_bytes)},
      {"scheduler", role(1, own.cpu_seconds, own.peak_rss_bytes)}};
}

}  // namespace

void AddCosts(const RunCosts& costs, OrderedJson* json) {
  const double samples = static_cast<double>(costs.work.samples);
  (*json)["whole_run"] = costs.whole_run;
  (*json)["train_seconds"] = costs.train_seconds;
  (*json)["cpu_seconds"] = costs.cpu_seconds;
  (*json)["train_cpu_seconds"] = costs.train_cpu_seconds;
  (*json)["samples_per_second"] = costs.train_seconds > 0 ? samples / costs.train_seconds : 0.0;
  AddStats(costs.work, json);
  (*json)["lease_bytes_per_sample"] = costs.work.PerSample(costs.lease_bytes);
  (*json)["peak_rss_mb"] = static_cast<double>(costs.peak_rss_bytes) / (1 << 20);
}

void AddAudits(const RunStatus& status, OrderedJson* json) {
  if (status.run->config.train.audit <= 0) return;
  const TrustTotals& checks = status.trust;
  (*json)["audits"] = {{"done", checks.done},
                       {"skipped", checks.skipped},
                       {"undecided", checks.undecided},
                       {"liars", checks.liars.size()},
                       {"taken_back", checks.taken_back}};
}

std::string StartRecord(const RunContext& run, double time) {
  OrderedJson json;
  json["event"] = "start";
  json["elapsed_s"] = 0.0;
  json["time"] = std::round(time);
  json["train_samples"] = run.train == nullptr ? 0 : run.PassSamples();
  json["held_out_samples"] = run.HeldOutSamples();
  json["test_samples"] = run.test == nullptr ? 0 : run.test->size();
  if (run.train != nullptr) {
    const DataFacts facts = DataFactsOf(*run.train, run.PassSamples());
    json["label_repeats"] = facts.label_repeats;
    json["median_label_samples"] = facts.median_label;
    json["median_length"] = MedianLength(*run.train);
  }
  return json.dump();
}

std::string NoticeRecord(const Event& event, double elapsed_s) {
  OrderedJson json = {{"event", "notice"}, {"elapsed_s", elapsed_s}};
  AddEvent({elapsed_s, event}, &json);
  return TextOf(json);
}

std::string LostRecord(const std::string& server, double elapsed_s) {
  return TextOf({{"event", "lost"}, {"elapsed_s", elapsed_s}, {"server", server}});
}

std::string ProgressRecord(const ProgressMeter::Reading& reading, const RunStatus& status,
                           const ProcessUsage& own, double elapsed_s) {
  OrderedJson json;
  json["event"] = "progress";
  json["elapsed_s"] = elapsed_s;
  json["epoch"] = reading.epoch;
  json["progress"] = reading.progress;
  json["samples"] = reading.samples;
  json["samples_per_second"] = reading.samples_per_second;
  AddStats(reading.recent, &json);
  json["processes"] = ProcessesJson(status, own);
  return json.dump();
}

Event EvaluationEvent(const EvaluationResult& result, bool is_stream) {
  const RankingMetrics& m = result.metrics;
  const bool held_out = result.set == EvaluationSet::kHeldOut;
  const char* what = held_out                             ? "held out"
                     : result.set == EvaluationSet::kTest ? "final"
                                                          : "evaluated";
  std::string line =
      fmt::format("{} {} {}: P@1 {:.2f}  P@3 {:.2f}  P@5 {:.2f}  nDCG@5 {:.2f}",
                  is_stream ? "segment" : "epoch", result.epoch, what, 100 * m.precision[0],
                  100 * m.precision[2], 100 * m.precision[4], 100 * m.ndcg[4]);
  // Of a stream nobody knows how frequent labels are.
  const bool no_psp = m.propensity_precision[0] == 0 && m.precision[0] > 0;
  if (!no_psp) line += fmt::format("  PSP@1 {:.2f}", 100 * m.propensity_precision[0]);
  const std::string without =
      m.without_labels == 0 ? "" : fmt::format(", {} without labels", m.without_labels);
  line += fmt::format("  ({} {} samples{})", m.samples, held_out ? "held-out" : "test", without);
  return {event::kEvaluated,
          std::move(line),
          {{"epoch", result.epoch},
           {"set", std::string(held_out ? "held_out" : "test")},
           {"samples", m.samples},
           {"p_at_1", m.precision[0]},
           {"ndcg_at_5", m.ndcg[4]}}};
}

std::string EvaluationRecord(const EvaluationResult& result, double elapsed_s) {
  const bool held_out = result.set == EvaluationSet::kHeldOut;
  OrderedJson json;
  json["event"] = held_out ? "held_out" : "evaluation";
  json["elapsed_s"] = elapsed_s;
  json["epochs_trained"] = result.epoch;
  if (!held_out) json["final"] = result.set == EvaluationSet::kTest;
  AddMetrics(result.metrics, &json);
  return json.dump();
}

std::string SummaryJson(const RunStatus& status, const RunCosts& costs, const ProcessUsage& own) {
  const ModelConfig& model = status.run->config.model;
  OrderedJson json;
  json["outcome"] = status.outcome.empty() ? "finished" : status.outcome;
  if (status.last_evaluation) AddMetrics(status.last_evaluation->metrics, &json);
  if (status.last_held_out) AddMetrics(status.last_held_out->metrics, &json["held_out"]);
  if (!status.choices.empty()) json["choices"] = status.choices;
  json["epochs"] = status.epoch;
  json["samples"] = status.samples;
  AddCosts(costs, &json);
  json["processes"] = ProcessesJson(status, own);
  AddAudits(status, &json);
  json["parameters"] = ParameterCount(model);
  json["checkpoint"] = status.last_checkpoint;
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace dslide
