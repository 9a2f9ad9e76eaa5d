#include "scheduler/status/progress.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dslide {
namespace {

// 12345.6 -> "12,346".
std::string Grouped(double value) {
  const std::string digits = fmt::format("{:.0f}", value);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string StreamText(const ProgressMeter::Reading& r) {
  std::string line =
      fmt::format("segment {}  {} samples", r.epoch, Grouped(static_cast<double>(r.samples)));
  line += r.awaits_segment ? "  waiting for more"
                           : fmt::format("  {} samples/s", Grouped(r.samples_per_second));
  return line + fmt::format("  labels {}  features {}", Grouped(r.labels), Grouped(r.features));
}

}  // namespace

std::string FormatDuration(double seconds) {
  const auto s = static_cast<int64_t>(std::lround(seconds));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

ProgressMeter::Reading ProgressMeter::Sample(const RunStatus& status) {
  Reading reading;
  reading.recent = status.work.Since(last_);
  const auto elapsed_ms = static_cast<double>(status.training_ms - last_training_ms_);
  if (elapsed_ms > 0 && reading.recent.samples > 0) {
    const double rate = 1000.0 * static_cast<double>(reading.recent.samples) / elapsed_ms;
    rate_ = rate_ == 0 ? rate : 0.5 * rate_ + 0.5 * rate;
    // The time of a stretch without samples belongs to the next ones.
    last_training_ms_ = status.training_ms;
  }
  last_ = status.work;
  const TrainConfig& train = status.run->config.train;
  reading.samples = status.samples;
  reading.samples_per_second = rate_;
  reading.progress = status.progress;
  reading.epochs = train.epochs;
  reading.epoch = std::min(train.epochs, status.epoch + 1);
  reading.is_stream = status.run->is_stream();
  reading.awaits_segment = status.awaits_segment;
  reading.features = status.run->config.model.features;
  reading.labels = status.run->config.model.labels;
  if (rate_ > 0 && !reading.is_stream) {
    const double all = static_cast<double>(status.run->PassSamples()) * train.epochs;
    reading.eta_seconds = all * (1.0 - reading.progress) / rate_;
  }
  if (status.last_evaluation) reading.p_at_1 = status.last_evaluation->metrics.precision[0];
  if (status.last_held_out) reading.held_out = status.last_held_out->metrics.precision[0];
  return reading;
}

std::string ProgressText(const ProgressMeter::Reading& r) {
  const TrainingStats& s = r.recent;
  const double in_epoch = std::clamp(100.0 * (r.progress * r.epochs - (r.epoch - 1)), 0.0, 100.0);
  std::string line = r.is_stream ? StreamText(r)
                                 : fmt::format("epoch {}/{} {:3.0f}%  {} samples/s", r.epoch,
                                               r.epochs, in_epoch, Grouped(r.samples_per_second));
  if (r.eta_seconds >= 0) line += fmt::format("  ETA {}", FormatDuration(r.eta_seconds));
  if (s.samples > 0) {
    line += fmt::format("  loss {:.3f}  active {}/sample  {} B/sample", s.Loss(),
                        Grouped(s.ActiveNeuronsPerSample()),
                        Grouped(s.BytesSentPerSample() + s.BytesReceivedPerSample()));
  }
  if (s.measured_tail()) line += fmt::format("  tail error {:.2f}", s.TailError());
  if (s.measured_recall()) line += fmt::format("  recall@10 {:.2f}", s.RecallSet());
  if (r.p_at_1) line += fmt::format("  P@1 {:.2f}", 100 * *r.p_at_1);
  if (r.held_out) line += fmt::format("  held-out P@1 {:.2f}", 100 * *r.held_out);
  return line;
}

}  // namespace dslide
