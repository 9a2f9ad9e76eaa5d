#include "tools/dslide/estimate/estimate_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/plural.h"
#include "tools/dslide/report/size_text.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The bounds of tools/bench/RESULTS.md, "Estimates".
constexpr double kBytesClaim = 0.05;
constexpr double kStartClaim = 0.9;  // of bytes, if only the start of a run was measured
constexpr double kMemoryClaim = 0.10;

std::string Duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

double BytesClaim(const MeasuredRun& run) {
  return std::max(kBytesClaim, kStartClaim * (1 - run.share) * (1 - run.share));
}

uint64_t DiskBytes(const EstimateReport& report) {
  return report.exact.model_bytes * (uint64_t{report.task.config.checkpoint.keep} + 1);
}

}  // namespace

std::string EstimateText(const EstimateReport& report) {
  const Config& config = report.task.config;
  const ExactFigures& exact = report.exact;
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<14}{}\n", name, value);
  };
  line("data",
       fmt::format("{} samples and {} held out, {} features, {} labels", report.task.samples,
                   report.task.held_out_samples, config.model.features, config.model.labels));
  line("training", TrainingText(config));
  line("parameters",
       fmt::format("{:.1f} million, {} with optimiser state and tables",
                   static_cast<double>(exact.parameters) / 1e6, SizeText(exact.model_bytes)));
  line("rows", fmt::format("{} of them at the fullest server, which may use {}{}",
                           SizeText(exact.most_rows_bytes), SizeText(exact.allowed_bytes),
                           exact.most_rows_bytes > exact.allowed_bytes
                               ? "; the disk has the others (cluster.disk_tier)"
                               : ""));
  line("disk", fmt::format("{} a checkpoint, {} with {} and one that is written",
                           SizeText(exact.model_bytes), SizeText(DiskBytes(report)),
                           Plural(config.checkpoint.keep, "kept one")));
  if (!report.estimate) {
    line("not measured", report.not_measured);
    return text;
  }
  const Estimate& e = *report.estimate;
  line("memory",
       fmt::format("a server {}, a worker {}, the scheduler {} (within {:.0f} %, or 8 MB)",
                   SizeText(e.server_bytes), SizeText(e.worker_bytes), SizeText(e.scheduler_bytes),
                   100 * kMemoryClaim));
  line("bytes",
       fmt::format("workers send {:.0f} a sample and receive {:.0f}, and {:.0f} from the "
                   "scheduler (within {:.0f} %)",
                   e.bytes_sent, e.bytes_received, e.lease_bytes, 100 * BytesClaim(*report.run)));
  line("CPU", fmt::format("{:.1f} us a sample: servers {:.1f}, workers {:.1f}, scheduler {:.1f}; a "
                          "core trains {:.0f} samples/s",
                          1e6 / e.core_samples_per_second, e.server_cpu_us, e.worker_cpu_us,
                          e.scheduler_cpu_us, e.core_samples_per_second));
  line("speed", fmt::format("{:.0f} samples/s with {} and {}, between {:.0f} and {:.0f}", e.likely,
                            Plural(report.machines.servers, "server"),
                            Plural(report.machines.workers, "worker"), e.low, e.high));
  line("time", fmt::format("{} for {}, without evaluations", Duration(e.seconds),
                           Plural(config.train.epochs, "epoch")));
  line("bottleneck", e.bottleneck);
  line("measured on", fmt::format("{:.0f} batches, the first {:.0f} % of the run, with {} and {}",
                                  report.run->batches, 100 * report.run->share,
                                  Plural(report.run->server.count, "server"),
                                  Plural(report.run->worker.count, "worker")));
  return text;
}

std::string EstimateJson(const EstimateReport& report) {
  const Config& config = report.task.config;
  const ExactFigures& exact = report.exact;
  OrderedJson json = {
      {"samples", report.task.samples},      {"held_out_samples", report.task.held_out_samples},
      {"features", config.model.features},   {"labels", config.model.labels},
      {"servers", report.machines.servers},  {"workers", report.machines.workers},
      {"parameters", exact.parameters},      {"model_bytes", exact.model_bytes},
      {"rows_bytes", exact.most_rows_bytes}, {"allowed_bytes", exact.allowed_bytes},
      {"disk_bytes", DiskBytes(report)}};
  if (!report.estimate) {
    json["not_measured"] = report.not_measured;
    return json.dump(2) + "\n";
  }
  const Estimate& e = *report.estimate;
  json.update({{"server_bytes", e.server_bytes},
               {"worker_bytes", e.worker_bytes},
               {"scheduler_bytes", e.scheduler_bytes},
               {"memory_within", kMemoryClaim},
               {"bytes_sent_per_sample", e.bytes_sent},
               {"bytes_received_per_sample", e.bytes_received},
               {"lease_bytes_per_sample", e.lease_bytes},
               {"bytes_within", BytesClaim(*report.run)},
               {"core_samples_per_second", e.core_samples_per_second},
               {"samples_per_second", e.likely},
               {"samples_per_second_low", e.low},
               {"samples_per_second_high", e.high},
               {"hours", e.seconds / 3600},
               {"bottleneck", e.bottleneck},
               {"measured_share", report.run->share}});
  return json.dump(2) + "\n";
}

}  // namespace dslide
