#include "common/run/dense_copies.h"

#include <utility>

namespace dslide {

std::shared_ptr<const DenseWeights> DenseCopies::For(const Use& use, const TrainConfig& train,
                                                     bool asking, int64_t now_us) {
  if (!kept_ || kept_->use.kind != use.kind) return nullptr;
  if (use.kind == LeaseKind::kEvaluate) {
    const bool same = kept_->use.epoch == use.epoch && kept_->use.lease == use.lease;
    return same ? kept_->copy : nullptr;
  }
  if (IsSynchronous(train)) return kept_->use.step == use.step ? kept_->copy : nullptr;
  const bool fresh = kept_->batches < kMostBatches && now_us - kept_->since_us < kMostAgeUs;
  // While the next copy is on its way others go on, up to as many again.
  const bool waits = asking && kept_->batches < 2 * kMostBatches;
  if (!fresh && !waits) return nullptr;
  kept_->batches++;
  return kept_->copy;
}

void DenseCopies::Keep(const Use& use, std::shared_ptr<const DenseWeights> copy, int64_t now_us) {
  kept_ = Kept{use, std::move(copy), now_us};
}

}  // namespace dslide
