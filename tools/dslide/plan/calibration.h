// What this machine needs for a batch of a configuration: a few seconds of training in this
// process.
#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "tools/dslide/plan/cost_model.h"

namespace dslide {

struct Calibration {
  Config config;  // resolved for the run
  // Of the run. Ids beyond the sizes that fit here are folded into them.
  std::vector<LeaseBatch> batches;
  double samples = 1;       // of the data
  double run_batches = 1;   // of the whole run
  double seconds = 1;       // of each measurement; there are two, or four with centroids
  uint64_t most_bytes = 0;  // that the model may take here
};

// Trains with one executor and with several, so that what each costs and what they share are told
// apart; encodes and decodes the messages of some batches; sends messages through sockets on
// loopback. CPU time, so that other work on the machine changes little. Errors (kFailed): the
// sockets do not work.
Result<std::vector<EpochRates>> Calibrate(const Calibration& calibration);

// The machine that rates are measured on: "2 cores, avx512 kernels".
std::string ThisMachineText();

// As JSON text, and back. Errors (kBadInput) say what is missing or no number.
std::string RatesJson(const std::vector<EpochRates>& epochs);
Result<std::vector<EpochRates>> RatesFromJson(const std::string& text);

}  // namespace dslide
