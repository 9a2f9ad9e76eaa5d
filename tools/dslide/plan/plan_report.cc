#include "tools/dslide/plan/plan_report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "common/base/plural.h"
#include "tools/dslide/plan/calibration.h"
#include "tools/dslide/report/size_text.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

const char* NameOf(WirePrecision precision) {
  switch (precision) {
    case WirePrecision::kFp32:
      return "fp32";
    case WirePrecision::kInt8:
      return "int8";
    case WirePrecision::kBf16:
      break;
  }
  return "bf16";
}

// "3 min", "2.5 h".
std::string Duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

double Money(const PlanReport& report) {
  return *report.price * static_cast<double>(report.input->nodes.size()) * report.estimate.seconds /
         3600;
}

}  // namespace

std::string PlanText(const PlanReport& report) {
  const PlanEstimate& e = report.estimate;
  const PlanInput& input = *report.input;
  const Config& config = input.config;
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<14}{}\n", name, value);
  };
  line("data",
       fmt::format("{}: {} samples, {} features, {} labels; {:.1f} and {:.1f} a sample",
                   report.data, input.shape.samples, config.model.features, config.model.labels,
                   input.shape.features.per_sample, input.shape.labels.per_sample));
  line("training", TrainingText(config));
  line("parameters", fmt::format("{:.1f} million, {} with optimiser state and tables",
                                 static_cast<double>(e.parameters) / 1e6, SizeText(e.model_bytes)));
  line("memory", fmt::format("a server {}, a worker {}, the scheduler {}", SizeText(e.server_bytes),
                             SizeText(e.worker_bytes), SizeText(e.scheduler_bytes)));
  line("disk", fmt::format("{} of checkpoints in all: {} and the one being written, {} each",
                           SizeText(e.disk_bytes), Plural(config.checkpoint.keep, "kept one"),
                           SizeText(e.checkpoint_bytes)));
  line(
      "bytes",
      fmt::format("a worker sends {:.0f} a sample and receives {:.0f} ({}); {:.0f} on the "
                  "busiest link to a server, {:.0f} from the scheduler",
                  e.bytes_sent, e.bytes_received, NameOf(e.wire), e.bytes_per_link, e.lease_bytes));
  line("CPU", fmt::format("{:.1f} us a sample: servers {:.1f}, workers {:.1f}, scheduler {:.1f}",
                          e.server_cpu_us + e.worker_cpu_us + e.scheduler_cpu_us, e.server_cpu_us,
                          e.worker_cpu_us, e.scheduler_cpu_us));
  line("speed", fmt::format("{:.0f} samples/s with {}, {} and {}", e.samples_per_second,
                            Plural(e.servers, "server"), Plural(e.workers, "worker"),
                            Plural(e.executors, "executor")));
  line("time", fmt::format("{} for {} epochs", Duration(e.seconds), config.train.epochs));
  if (report.price) {
    line("money", fmt::format("{:.3g} for {}", Money(report), Plural(input.nodes.size(), "node")));
  }
  line("bottleneck",
       fmt::format("{}, busy {:.0f} % of the time", e.bottleneck, 100 * e.bottleneck_busy));
  const Rates& rates = input.epochs.front().rates;
  line("measured on", rates.machine + (input.core_speed == 1
                                           ? std::string()
                                           : fmt::format("; the nodes' cores have {:g} times its "
                                                         "speed",
                                                         input.core_speed)));
  if (report.rows.empty()) return text;
  text += fmt::format("\n{:>6}{:>12}{:>12}{:>18}  {}\n", "nodes", "samples/s", "efficiency",
                      "a further node", "bottleneck");
  for (const NodesRow& row : report.rows) {
    const bool first = &row == &report.rows.front();
    text += fmt::format("{:>6}{:>12.0f}{:>11.0f}%{:>18}  {}\n", row.nodes, row.samples_per_second,
                        100 * row.efficiency, first ? "" : fmt::format("{:+.0f} %", 100 * row.gain),
                        row.bottleneck);
  }
  return text;
}

std::string PlanJson(const PlanReport& report) {
  const PlanEstimate& e = report.estimate;
  const PlanInput& input = *report.input;
  OrderedJson json;
  json["samples"] = input.shape.samples;
  json["features"] = input.config.model.features;
  json["labels"] = input.config.model.labels;
  json["hidden"] = input.config.model.hidden;
  json["batch"] = input.config.train.batch;
  json["epochs"] = input.config.train.epochs;
  json["features_per_sample"] = input.shape.features.per_sample;
  json["labels_per_sample"] = input.shape.labels.per_sample;
  json["input_rows_per_batch"] = input.shape.features.distinct;
  json["label_rows_per_batch"] = input.shape.labels.distinct;
  json["rows_per_batch"] = input.epochs.front().rates.rows_per_batch;
  json["parameters"] = e.parameters;
  json["model_bytes"] = e.model_bytes;
  json["server_bytes"] = e.server_bytes;
  json["worker_bytes"] = e.worker_bytes;
  json["scheduler_bytes"] = e.scheduler_bytes;
  json["checkpoint_bytes"] = e.checkpoint_bytes;
  json["disk_bytes"] = e.disk_bytes;
  json["nodes"] = input.nodes.size();
  json["servers"] = e.servers;
  json["workers"] = e.workers;
  json["executors"] = e.executors;
  json["batches_in_flight"] = e.in_flight;
  json["wire"] = NameOf(e.wire);
  json["bytes_sent_per_sample"] = e.bytes_sent;
  json["bytes_received_per_sample"] = e.bytes_received;
  json["bytes_per_sample_on_busiest_link"] = e.bytes_per_link;
  json["lease_bytes_per_sample"] = e.lease_bytes;
  json["server_cpu_us_per_sample"] = e.server_cpu_us;
  json["worker_cpu_us_per_sample"] = e.worker_cpu_us;
  json["scheduler_cpu_us_per_sample"] = e.scheduler_cpu_us;
  json["samples_per_second"] = e.samples_per_second;
  json["hours"] = e.seconds / 3600;
  if (report.price) json["money"] = Money(report);
  json["bottleneck"] = e.bottleneck;
  json["bottleneck_busy"] = e.bottleneck_busy;
  json["core_speed"] = input.core_speed;
  OrderedJson rows = OrderedJson::array();
  for (const NodesRow& row : report.rows) {
    rows.push_back({{"nodes", row.nodes},
                    {"samples_per_second", row.samples_per_second},
                    {"efficiency", row.efficiency},
                    {"gain", row.gain},
                    {"bottleneck", row.bottleneck}});
  }
  json["more_nodes"] = std::move(rows);
  json["rates"] = OrderedJson::parse(RatesJson(input.epochs));
  return json.dump(2) + "\n";
}

}  // namespace dslide
