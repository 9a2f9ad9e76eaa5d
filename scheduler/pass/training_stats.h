// Sums over the batches that counted, and the figures that users see made from them.
#pragma once

#include <array>
#include <cstdint>

#include "common/wire/messages.h"

namespace dslide {

struct TrainingStats {
  uint64_t batches = 0;
  uint64_t samples = 0;
  double loss_sum = 0;
  uint64_t active_neurons_sum = 0;
  uint64_t active_rows_sum = 0;
  uint64_t bytes_sent = 0;                           // by workers to servers
  uint64_t bytes_received = 0;                       // by workers from servers
  std::array<uint64_t, kBodyKinds> bytes_by_kind{};  // both, by Body::index()
  uint64_t probed = 0;
  double recall_set = 0;
  double recall_hash = 0;
  double recall_uniform = 0;
  double tail_error = 0;

  void Add(const BatchDone& done);
  void Add(const TrainingStats& later);
  TrainingStats Since(const TrainingStats& earlier) const;

  double PerSample(double sum) const;  // 0 without samples
  double Loss() const { return PerSample(loss_sum); }
  double ActiveNeuronsPerSample() const {
    return PerSample(static_cast<double>(active_neurons_sum));
  }
  double ActiveRowsPerBatch() const;
  double BytesSentPerSample() const { return PerSample(static_cast<double>(bytes_sent)); }
  double BytesReceivedPerSample() const { return PerSample(static_cast<double>(bytes_received)); }
  double BytesPerSample(size_t kind) const {
    return PerSample(static_cast<double>(bytes_by_kind[kind]));
  }
  // Recall is not measured with active = mass; nor is the tail's error with sharing = sample.
  bool measured_recall() const { return recall_uniform > 0; }
  bool measured_tail() const { return tail_error > 0; }
  // Relative standard error of a sample's normaliser, from the draw of its active set.
  double TailError() const { return PerProbe(tail_error); }
  double RecallSet() const { return PerProbe(recall_set); }
  double RecallHash() const { return PerProbe(recall_hash); }
  double RecallUniform() const { return PerProbe(recall_uniform); }

 private:
  double PerProbe(double sum) const;
};

}  // namespace dslide
