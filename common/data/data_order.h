// Which samples make up which batch.
//
// An epoch's samples are a seeded permutation of the file's without those that are held out, so
// batch (epoch, unit, index) has the same samples on every worker, and a worker with the file can
// find them itself. An evaluation takes a seeded random subset (never a prefix: files are often
// sorted), or all samples in file order.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/data/dataset.h"
#include "common/data/token_samples.h"

namespace dslide {

// Positions [first, first + samples) of an order.
struct BatchRange {
  uint64_t first = 0;
  uint32_t samples = 0;
};

class DataOrder {
 public:
  // The order of `data` (must outlive this) for one training epoch, in which samples that are drawn
  // are those of this epoch. `held_out`: numbers of samples that it leaves out, which ascend.
  // REQUIRES that the samples are stored, if some are left out.
  static DataOrder Epoch(const Dataset& data, uint64_t seed, uint32_t epoch, uint32_t batch,
                         std::span<const uint32_t> held_out = {});
  // REQUIRES stored samples. `samples` random samples of `data`; all of them if 0 or more than
  // `data` has.
  static DataOrder Evaluation(const Dataset& data, uint64_t seed, uint64_t samples, uint32_t batch);
  // These samples of `data`, in this order. REQUIRES stored samples.
  static DataOrder OfSamples(const Dataset& data, std::vector<uint32_t> numbers, uint32_t batch);

  uint64_t samples() const { return order_.size(); }
  uint64_t batches() const { return (order_.size() + batch_ - 1) / batch_; }

  // The positions of batch `number`. REQUIRES number < batches().
  BatchRange Batch(uint64_t number) const;

  // Whether the weights of samples count: in training, if some are not 1.
  bool weighted() const { return weighted_; }
  // One that is drawn is valid until the next call; then one thread uses an object.
  SampleView Sample(uint64_t position) const {
    const TokenSamples* drawn = data_->drawn();
    return drawn == nullptr ? (*data_)[Number(position)]
                            : drawn->Sample(Number(position), draws_, &scratch_);
  }
  // Which sample of the data it is; of one that is drawn the position of its token.
  uint32_t Number(uint64_t position) const { return order_[position]; }

 private:
  DataOrder(const Dataset& data, uint32_t batch) : data_(&data), batch_(batch) {}

  const Dataset* data_;
  uint32_t batch_;
  bool weighted_ = false;
  std::vector<uint32_t> order_;
  TokenSamples::Draws draws_;
  mutable TokenSamples::Scratch scratch_;
};

}  // namespace dslide
