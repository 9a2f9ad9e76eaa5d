// Finds contributors whose batches have a higher training loss than those of the others.
//
// Batches are drawn at random from the data, so honest contributors see the same mean loss. Who
// trains on wrong labels, or scales what it sends, has a higher one, because the others' work pulls
// the model the other way. In each window of batches, the mean loss of a contributor is compared
// with the median of the other contributors' means (the greater of two). With fewer than
// kLeastContributors nobody can tell which one is wrong, and nobody is named. The losses are those
// that servers have seen (report_check.h). Pure; owned by the scheduler's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dslide {

class LossOutliers {
 public:
  static constexpr size_t kLeastContributors = 3;
  static constexpr double kShare = 0.05;         // of log(labels), above the others
  static constexpr double kErrors = 6;           // standard errors of the mean, above the others
  static constexpr uint64_t kLeastJudged = 10;   // batches of a contributor in a window
  static constexpr uint64_t kWindowOfEach = 20;  // batches of a window for each contributor
  static constexpr uint64_t kLeastWindow = 60;

  struct Outlier {
    std::string contributor;
    double loss = 0;    // mean of its batches in the window
    double others = 0;  // the median of the others' means
  };

  // `labels` >= 2.
  explicit LossOutliers(uint32_t labels);

  // A batch counts. `loss`: the mean of its samples, finite. At the end of a window: the outliers
  // in it, in the order of their names.
  std::vector<Outlier> Add(const std::string& contributor, double loss);

 private:
  struct Losses {
    uint64_t count = 0;
    double sum = 0;
    double squares = 0;

    double mean() const { return sum / static_cast<double>(count); }
    double StandardError() const;
  };

  std::vector<Outlier> Judge() const;

  double least_;  // nats above the others
  uint64_t batches_ = 0;
  std::map<std::string, Losses> window_;
};

}  // namespace dslide
