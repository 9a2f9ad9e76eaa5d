// Finds contributors whose batches have a higher training loss than those of the others.
//
// Batches are drawn at random from the data, so honest contributors see the same loss at the same
// time. A contributor that trains on wrong labels, or scales what it sends, sees a higher one,
// because the work of the others pulls the model the other way. Each batch is compared with the
// recent means of the other contributors: with their median, the greater of two. A contributor is
// an outlier when the mean of these differences is too large in two windows of its batches in a
// row. With fewer than kLeastContributors nobody can tell which one is wrong, and nobody is named.
// The losses are those that servers have told (report_check.h). Pure; owned by the scheduler's
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace dslide {

class LossOutliers {
 public:
  static constexpr size_t kLeastContributors = 3;
  static constexpr double kShare = 0.05;   // of log(labels), above the others
  static constexpr double kErrors = 6;     // standard errors of the mean, above the others
  static constexpr uint64_t kWindow = 20;  // batches of a contributor
  static constexpr uint32_t kWindowsInRow = 2;
  static constexpr double kRecent = 0.2;             // weight of the last batch in a recent mean
  static constexpr uint64_t kLeastKnown = 5;         // batches before a recent mean counts
  static constexpr size_t kMostContributors = 4096;  // the least recent one is forgotten

  struct Outlier {
    double loss = 0;    // mean of its last window
    double others = 0;  // what the others had at the same time
  };

  // `labels` >= 2.
  explicit LossOutliers(uint32_t labels);

  // A batch counts. `loss`: the mean of its samples, finite. At the end of a contributor's window:
  // whether it is an outlier.
  std::optional<Outlier> Add(const std::string& contributor, double loss);

  // For an alarm, which does not wait for whole windows: the contributors whose batches in their
  // present window are that much above the others, kLeastKnown of them at least.
  std::map<std::string, Outlier> Suspects() const;

  // The model has gone back to a checkpoint.
  void BeginGeneration() {
    contributors_.clear();
    level_.reset();
  }

 private:
  struct Contributor {
    double recent = 0;
    uint64_t batches = 0;
    uint64_t last = 0;  // batch of all
    // In the current window; in_row: windows before it with too large a mean.
    uint64_t count = 0;
    double losses = 0, sum = 0, squares = 0;  // the latter two of differences
    uint32_t in_row = 0;

    // The window so far, if its mean difference is above `least` and kErrors standard errors.
    // REQUIRES count > 1.
    std::optional<Outlier> OutlierAbove(double least) const;
  };

  std::optional<double> LevelOfOthers(const std::string& contributor);
  std::optional<Outlier> EndWindow(Contributor* own) const;

  double least_;  // nats above the others
  uint64_t batches_ = 0;
  std::map<std::string, Contributor> contributors_;
  // With many contributors: the median of all of them, and the batch at which it was computed.
  std::optional<double> level_;
  uint64_t level_at_ = 0;
};

}  // namespace dslide
