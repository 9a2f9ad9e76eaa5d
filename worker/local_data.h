// The training file on a worker's own machine, so that leases need not carry samples.
//
// When a worker with a file joins, it compares the file with the scheduler's training data. If they
// are equal, the worker asks for leases with numbers only and takes the samples from its file, in
// the scheduler's order of the epoch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  // `file` must outlive this. Null: the worker has no file, and leases must carry samples.
  explicit LocalData(const TrainingFile* file) : file_(file) {}

  // Compares the file with the run's training data, which `reply` and `config` describe. The error
  // names the file and the difference. Without a file it always succeeds.
  Status Join(const Config& config, const JoinReply& reply);

  // Whether leases may come without samples. False also if the scheduler sent no checksum of its
  // data.
  bool in_use() const { return in_use_; }

  // Adds the samples to the lease's batches that came without. An error says why the lease cannot
  // be worked on; some of its batches may then still lack samples.
  Status Complete(const Config& config, LeaseGrant* grant);

 private:
  Status FillIn(const Config& config, const LeaseGrant& grant, LeaseBatch* batch);
  const DataOrder& OrderOf(const Config& config, uint32_t epoch);

  const TrainingFile* file_;
  bool in_use_ = false;
  uint32_t order_epoch_ = 0;
  std::optional<DataOrder> order_;  // of order_epoch_
  std::vector<uint32_t> held_out_;  // numbers of samples that are not trained
};

}  // namespace dslide
