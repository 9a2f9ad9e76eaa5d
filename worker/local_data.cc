#include "worker/local_data.h"

#include <fmt/core.h>

#include "common/base/plural.h"
#include "common/run/batch_number.h"
#include "common/run/hold_out.h"
#include "common/run/lease_batch.h"
#include "common/wire/rounding.h"

namespace dslide {

Status LocalData::Join(const Config& config, const JoinReply& reply) {
  in_use_ = false;
  order_.reset();
  if (file_ == nullptr) return {};
  if (!config.labels.vocabulary.empty()) {
    return BadInput(
        fmt::format("{}: the run has a vocabulary (labels.vocabulary), which this "
                    "machine does not read; leave --data out",
                    file_->path));
  }
  const auto differs = [&](const char* what, uint64_t here, uint64_t there) {
    return BadInput(
        fmt::format("{}: {}, but the run trains on {}; name the scheduler's "
                    "train.data ({}), or leave --data out",
                    file_->path, Plural(here, what), there, config.train.data));
  };
  const Dataset& data = file_->data;
  held_out_.clear();
  if (data.drawn() == nullptr) held_out_ = ChooseHeldOut(data, config).numbers;
  if (data.size() - held_out_.size() != reply.train_samples) {
    return differs("sample", data.size() - held_out_.size(), reply.train_samples);
  }
  if (data.num_features() != config.model.features) {
    return differs("feature", data.num_features(), config.model.features);
  }
  if (data.num_labels() != config.model.labels) {
    return differs("label", data.num_labels(), config.model.labels);
  }
  if (reply.train_checksum == 0) return {};
  if (file_->checksum != reply.train_checksum) {
    return BadInput(fmt::format(
        "{}: other samples than those that the run trains on (checksum "
        "{:016x} instead of {:016x}); name the scheduler's train.data "
        "({}), or leave --data out; that wants train.min_label_samples = 1, and for text "
        "the defaults of [text]",
        file_->path, file_->checksum, reply.train_checksum, config.train.data));
  }
  in_use_ = true;
  return {};
}

Status LocalData::Complete(const Config& config, LeaseGrant* grant) {
  for (LeaseBatch& batch : grant->batches) {
    if (batch.features.rows() == 0) {
      DSLIDE_RETURN_IF_ERROR(FillIn(config, *grant, &batch));
    } else if (batch.features.values.size() != batch.features.ids.size()) {
      return Failed(
          fmt::format("lease {}: batch {} has features without values", grant->lease, batch.index));
    }
  }
  return {};
}

Status LocalData::FillIn(const Config& config, const LeaseGrant& grant, LeaseBatch* batch) {
  const auto refused = [&](const char* why) {
    return Failed(
        fmt::format("lease {}: batch {} comes without samples {}", grant.lease, batch->index, why));
  };
  if (!in_use_) return refused("to a worker that has no training file");
  if (grant.kind != LeaseKind::kTrain) return refused("of an evaluation");
  const DataOrder& order = OrderOf(config, grant.epoch);
  const uint64_t number = NumberInPass(grant.unit, batch->index, config.train.unit_batches);
  const bool exists = batch->index < config.train.unit_batches && number < order.batches();
  LeaseBatch own = exists ? BatchByNumbers(order, number, batch->index) : LeaseBatch();
  own.ticket = batch->ticket;
  if (!exists || own != *batch) return refused("and its numbers do not match the training file");
  *batch = BatchWithSamples(order, number, batch->index);
  batch->ticket = own.ticket;
  // Rounded as the wire would, so that a batch is the same on every worker.
  if (RoundAsOnWire(FixedPrecision(config.cluster.wire), &batch->features)) return {};
  return Failed(fmt::format("lease {}: batch {} of {} has values too large for cluster.wire",
                            grant.lease, batch->index, file_->path));
}

const DataOrder& LocalData::OrderOf(const Config& config, uint32_t epoch) {
  if (!order_ || order_epoch_ != epoch) {
    order_ =
        DataOrder::Epoch(file_->data, config.common.seed, epoch, config.train.batch, held_out_);
    order_epoch_ = epoch;
  }
  return *order_;
}

}  // namespace dslide
