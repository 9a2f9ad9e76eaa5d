#include "scheduler/pass/training_stats.h"

namespace dslide {

void TrainingStats::Add(const BatchDone& done) {
  batches++;
  samples += done.samples;
  loss_sum += done.loss_sum;
  active_neurons_sum += done.active_neurons_sum;
  active_rows_sum += done.active_rows;
  bytes_sent += done.bytes_sent;
  bytes_received += done.bytes_received;
  for (size_t k = 0; k < done.bytes_by_kind.size(); ++k) bytes_by_kind[k] += done.bytes_by_kind[k];
  probed += done.probed;
  recall_set += done.recall_set;
  recall_hash += done.recall_hash;
  recall_uniform += done.recall_uniform;
  tail_error += done.tail_error;
}

void TrainingStats::Add(const TrainingStats& later) {
  batches += later.batches;
  samples += later.samples;
  loss_sum += later.loss_sum;
  active_neurons_sum += later.active_neurons_sum;
  active_rows_sum += later.active_rows_sum;
  bytes_sent += later.bytes_sent;
  bytes_received += later.bytes_received;
  for (size_t k = 0; k < bytes_by_kind.size(); ++k) bytes_by_kind[k] += later.bytes_by_kind[k];
  probed += later.probed;
  recall_set += later.recall_set;
  recall_hash += later.recall_hash;
  recall_uniform += later.recall_uniform;
  tail_error += later.tail_error;
}

TrainingStats TrainingStats::Since(const TrainingStats& earlier) const {
  TrainingStats d = *this;
  d.batches -= earlier.batches;
  d.samples -= earlier.samples;
  d.loss_sum -= earlier.loss_sum;
  d.active_neurons_sum -= earlier.active_neurons_sum;
  d.active_rows_sum -= earlier.active_rows_sum;
  d.bytes_sent -= earlier.bytes_sent;
  d.bytes_received -= earlier.bytes_received;
  for (size_t k = 0; k < bytes_by_kind.size(); ++k) d.bytes_by_kind[k] -= earlier.bytes_by_kind[k];
  d.probed -= earlier.probed;
  d.recall_set -= earlier.recall_set;
  d.recall_hash -= earlier.recall_hash;
  d.recall_uniform -= earlier.recall_uniform;
  d.tail_error -= earlier.tail_error;
  return d;
}

double TrainingStats::PerSample(double sum) const {
  return samples == 0 ? 0.0 : sum / static_cast<double>(samples);
}

double TrainingStats::PerProbe(double sum) const {
  return probed == 0 ? 0.0 : sum / static_cast<double>(probed);
}

double TrainingStats::ActiveRowsPerBatch() const {
  return batches == 0 ? 0.0 : static_cast<double>(active_rows_sum) / static_cast<double>(batches);
}

}  // namespace dslide
