// The training file on a worker's own machine, so that leases need not carry samples.
//
// A worker that was given a file compares it with what the scheduler trains on when it joins. If
// they are the same it asks for leases with numbers only, and takes the samples from its file, by
// the same order of the epoch as the scheduler's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/data/data_order.h"
#include "common/data/dataset.h"
#include "common/wire/messages.h"

namespace dslide {

struct TrainingFile {
  std::string path;  // for messages
  Dataset data;
  uint64_t checksum = 0;  // Checksum(data)
};

class LocalData {
 public:
  // `file` must outlive this. Null: the worker has none, and leases have to carry samples.
  explicit LocalData(const TrainingFile* file) : file_(file) {}

  // Compares the file with the training data of the run that `reply` and its configuration tell
  // of. The error names the file and what differs. No file fits every run.
  Status Join(const Config& config, const JoinReply& reply);

  // Whether leases may come without samples. False also if the scheduler did not say what its data
  // is.
  bool in_use() const { return in_use_; }

  // Gives the batches of a lease that came without samples their own. An error says why the lease
  // cannot be worked on; it is then unspecified which batches have their samples.
  Status Complete(const Config& config, LeaseGrant* grant);

 private:
  Status FillIn(const Config& config, const LeaseGrant& grant, LeaseBatch* batch);
  const DataOrder& OrderOf(const Config& config, uint32_t epoch);

  const TrainingFile* file_;
  bool in_use_ = false;
  uint32_t order_epoch_ = 0;
  std::optional<DataOrder> order_;  // of order_epoch_
};

}  // namespace dslide
