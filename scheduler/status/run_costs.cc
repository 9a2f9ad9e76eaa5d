#include "scheduler/status/run_costs.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/data/whole_file.h"
#include "common/log/log.h"
#include "common/security/token.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Calls each(name, figure) for the sums of TrainingStats, of a const one or another.
template <typename Stats, typename Each>
void ForEachSum(Stats* stats, const Each& each) {
  each("batches", &stats->batches);
  each("samples", &stats->samples);
  each("loss_sum", &stats->loss_sum);
  each("active_neurons_sum", &stats->active_neurons_sum);
  each("active_rows_sum", &stats->active_rows_sum);
  each("bytes_sent", &stats->bytes_sent);
  each("bytes_received", &stats->bytes_received);
  each("probed", &stats->probed);
  each("recall_set", &stats->recall_set);
  each("recall_hash", &stats->recall_hash);
  each("recall_uniform", &stats->recall_uniform);
  each("tail_error", &stats->tail_error);
}

template <typename Costs, typename Each>
void ForEachFigure(Costs* costs, const Each& each) {
  each("lease_bytes", &costs->lease_bytes);
  each("train_seconds", &costs->train_seconds);
  each("cpu_seconds", &costs->cpu_seconds);
  each("train_cpu_seconds", &costs->train_cpu_seconds);
  each("peak_rss_bytes", &costs->peak_rss_bytes);
  each("whole_run", &costs->whole_run);
}

std::string TextOf(uint64_t life) { return fmt::format("{:016x}", life); }

}  // namespace

std::string FormatCosts(const RunCosts& costs) {
  OrderedJson json;
  const auto write = [](OrderedJson* object) {
    return [object](const char* name, const auto* figure) { (*object)[name] = *figure; };
  };
  ForEachFigure(&costs, write(&json));
  ForEachSum(&costs.work, write(&json["work"]));
  OrderedJson& kinds = json["work"]["bytes_by_message"];
  kinds = OrderedJson::object();
  for (size_t kind = 0; kind < costs.work.bytes_by_kind.size(); ++kind) {
    const uint64_t bytes = costs.work.bytes_by_kind[kind];
    if (bytes > 0) kinds[std::string(BodyName(kind))] = bytes;
  }
  OrderedJson& members = json["member_cpu_seconds"];
  members = OrderedJson::object();
  for (const auto& [life, seconds] : costs.member_cpu_seconds) {
    members[TextOf(life)] = seconds;
  }
  return json.dump(2) + "\n";
}

Result<RunCosts> ParseCosts(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    RunCosts costs;
    const auto read = [](const nlohmann::json& object) {
      return [&object](const char* name, auto* figure) { object.at(name).get_to(*figure); };
    };
    ForEachFigure(&costs, read(json));
    const nlohmann::json& work = json.at("work");
    ForEachSum(&costs.work, read(work));
    const nlohmann::json& kinds = work.at("bytes_by_message");
    for (size_t kind = 0; kind < costs.work.bytes_by_kind.size(); ++kind) {
      costs.work.bytes_by_kind[kind] = kinds.value(std::string(BodyName(kind)), uint64_t{0});
    }
    for (const auto& [name, seconds] : json.at("member_cpu_seconds").items()) {
      uint64_t life = 0;
      const char* end = name.data() + name.size();
      if (std::from_chars(name.data(), end, life, 16).ptr != end) {
        return BadInput("a member's name is no life");
      }
      costs.member_cpu_seconds[life] = seconds;
    }
    return costs;
  } catch (const nlohmann::json::exception&) {
    return BadInput("damaged");
  }
}

RunCosts EarlierCosts(const std::string& run_directory, bool has_work) {
  RunCosts none;
  none.whole_run = !has_work;
  const std::string path = run_directory + "/" + kTotalsName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return none;
  const Result<std::string> text = ReadWholeFile(path);
  const Result<RunCosts> costs = text.ok() ? ParseCosts(*text) : Result<RunCosts>(text.error());
  if (costs.ok()) return *costs;
  LogWarning({event::kRecordsFailed, fmt::format("{}: {}; the summary counts from this start on",
                                                 path, costs.error().message)});
  return none;
}

RunCosts CostMeter::Read(const RunStatus& status, const ProcessUsage& own) {
  RunCosts costs = earlier_;
  std::map<uint64_t, double> now;
  for (const MemberStatus& member : status.members) {
    const uint64_t life = LifeOf(member.member.incarnation);
    now[life] = member.member.heartbeat.cpu_seconds;
    const auto earlier = awaited_.find(life);
    if (earlier == awaited_.end()) continue;
    known_cpu_seconds_ += earlier->second;
    awaited_.erase(earlier);
  }
  costs.member_cpu_seconds = awaited_;
  costs.member_cpu_seconds.merge(now);
  // The training's CPU time is known when the clock stops.
  const double training =
      status.phase == RunPhase::kTraining ? status.cpu_seconds : status.training_cpu_seconds;
  costs.work.Add(status.work);
  costs.lease_bytes += status.lease_bytes_per_sample * static_cast<double>(status.work.samples);
  costs.train_seconds += static_cast<double>(status.training_ms) / 1000.0;
  costs.cpu_seconds += std::max(0.0, status.cpu_seconds - known_cpu_seconds_) + own.cpu_seconds;
  costs.train_cpu_seconds += std::max(0.0, training - known_cpu_seconds_) + own.cpu_seconds;
  costs.peak_rss_bytes = std::max(costs.peak_rss_bytes, status.peak_rss_bytes + own.peak_rss_bytes);
  return costs;
}

}  // namespace dslide
