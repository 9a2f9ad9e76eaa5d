// How good the model is on the held-out samples from epoch to epoch.
//
// Pure; used by the scheduler's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dslide {

class HeldOutCurve {
 public:
  // A cooldown (common/config/schedule.h) takes so many epochs.
  static constexpr uint32_t kCooldownEpochs = 2;

  // nDCG of each held-out sample after `epochs` epochs. Drops earlier points of as many epochs or
  // more, which a rollback has made invalid.
  void Add(uint32_t epochs, std::vector<float> ndcg);

  // The relative change of the mean in the last epoch: 0.1 if it is 10 % higher than before.
  // REQUIRES size() > 1.
  double LastGain() const;

  size_t size() const { return points_.size(); }
  bool Has(uint32_t epochs) const;
  static double Mean(const std::vector<float>& ndcg);
  // The mean over the samples, of the last point and of the one before.
  double last() const { return Mean(points_.back().ndcg); }
  double before() const { return Mean(points_[points_.size() - 2].ndcg); }

 private:
  struct Point {
    uint32_t epochs;
    std::vector<float> ndcg;  // [samples]
  };

  std::vector<Point> points_;
};

}  // namespace dslide
