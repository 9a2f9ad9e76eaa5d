// The progress line: what a user watches while the cluster trains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/core/run_status.h"

namespace dslide {

// Figures over a recent stretch of training, taken between two calls of Sample().
class ProgressMeter {
 public:
  struct Reading {
    uint64_t samples = 0;           // in this run
    double samples_per_second = 0;  // recently
    double progress = 0;            // of all epochs, [0, 1]
    uint32_t epoch = 0;             // from 1
    uint32_t epochs = 0;
    double eta_seconds = -1;  // -1: not known yet
    TrainingStats recent;
    std::optional<double> p_at_1;    // of the last evaluation on test samples
    std::optional<double> held_out;  // P@1 of the last one on held-out samples
    // The model's sizes in a stream, whose epochs are segments.
    bool is_stream = false;
    bool awaits_segment = false;
    uint32_t features = 0;
    uint32_t labels = 0;
  };

  // Reads the totals of the run; later calls have later statuses.
  Reading Sample(const RunStatus& status);

 private:
  TrainingStats last_;
  int64_t last_training_ms_ = 0;
  double rate_ = 0;
};

// "epoch 2/8  31.5%  12,345 samples/s  ETA 0:42  loss 5.12  active 5,321 ..."
std::string ProgressText(const ProgressMeter::Reading& reading);

// "0:42", "12:05", "3:07:00".
std::string FormatDuration(double seconds);

}  // namespace dslide
