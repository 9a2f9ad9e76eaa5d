// Notices that a model becomes worse while it trains, as the gradients of liars make it, or a
// learning rate that is too high.
//
// The training loss of a contributor (a key, else a worker) in a window of batches is compared with
// its lowest in the windows before: what others train, and whether they come or go, changes nothing
// about that. The lowest is of kLeastJudged batches and more, over several windows if need be, and
// a contributor without one is not judged. Where none has one, the window is compared with the
// lowest of those with kMany contributors. A window rises by the median over its contributors (the
// lower one of two), so that less than half of them cannot raise or hide an alarm. The losses are
// those that servers have seen (report_check.h), in nats: log(labels) is that of a model that knows
// nothing, and the limits are shares of it. Pure; owned by the scheduler's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/config/config.h"

namespace dslide {

class DriftAlarm {
 public:
  // A loss so much above the lowest one is no noise of the samples: shares of log(labels).
  static constexpr double kRising = 0.1;
  static constexpr double kDrifting = 0.2;
  static constexpr uint32_t kWindowsInRow = 2;  // that drift, before the alarm
  static constexpr uint64_t kLeastWindow = 20;  // batches
  static constexpr uint32_t kMostReturns = 3;   // without a checkpoint in between
  static constexpr uint64_t kTrial = 10;        // batches that show what those before have done
  static constexpr uint64_t kLeastJudged = 20;  // batches whose mean says something
  static constexpr size_t kMany = 3;
  static constexpr size_t kMostContributors = 65536;  // whose lowest loss is remembered

  // Whether a rising loss means that the model becomes worse. Epochs that form centroids have other
  // losses than those that learn, the sigmoid loss has no scale, and new labels raise the loss. In
  // synchronous training audits find what gradients are wrong.
  static bool Watches(const Config& config) {
    return HasFixedSizes(config.train) && !IsSynchronous(config.train) &&
           LearnsNeurons(config.model) && config.model.loss == Loss::kSoftmax;
  }

  // `epoch_batches`: of an epoch; a window has a twentieth of them. `labels` >= 2.
  DriftAlarm(uint64_t epoch_batches, uint32_t labels);

  // A batch counts. `loss`: the mean of its samples, finite.
  void Add(const std::string& contributor, double loss);

  // The last windows drift: go back to a checkpoint, and call WentBack().
  bool drifting() const { return in_row_ >= kWindowsInRow; }
  // Whether there is a loss to compare with.
  bool judges() const { return lowest_.of_all.has_value(); }
  // Whether the last batches show no rise; what was trained before them may be saved.
  bool calm() const;
  // Batches since the beginning.
  uint64_t batches() const { return batches_; }
  // Batches of each contributor since the last complete window that was calm.
  const std::map<std::string, uint64_t>& suspects() const { return suspects_; }
  double loss() const { return last_; }  // of the last complete window; 0: none
  double lowest() const { return lowest_.of_all.value_or(0.0); }

  // The alarm takes all back. False: it has done so often that it is no help.
  [[nodiscard]] bool WentBack() { return ++returns_ <= kMostReturns; }
  // A checkpoint is complete.
  void Saved();
  // Training goes on from the newest checkpoint, for whatever reason: its loss was that of then.
  void BeginGeneration();

 private:
  struct Mean {
    double sum = 0;
    uint64_t count = 0;

    double value() const { return sum / static_cast<double>(count); }  // REQUIRES count > 0
  };
  using Window = std::map<std::string, Mean>;

  // The lowest losses so far.
  struct Lowest {
    std::optional<double> of_all;          // of the windows' medians, for people
    std::optional<double> of_many;         // of medians of at least kMany contributors
    std::map<std::string, double> of_one;  // by contributor
  };

  static double LossOf(const Window& window);
  double RiseOf(const Window& window) const;
  void Remember(const Window& window);
  bool Rises(double rise, double share) const { return rise > share * scale_; }

  uint64_t window_batches_;
  double scale_;  // log(labels)
  uint64_t batches_ = 0;
  Window window_;
  uint64_t in_window_ = 0;
  Window trial_;  // of the last kTrial to 2 kTrial batches, in two halves
  Window trial_before_;
  uint64_t in_trial_ = 0;
  Window unjudged_;  // batches of contributors since their last mean of kLeastJudged
  Lowest lowest_;
  Lowest saved_;  // when the newest checkpoint was complete
  double last_ = 0;
  uint32_t in_row_ = 0;
  uint32_t returns_ = 0;
  std::map<std::string, uint64_t> suspects_;
};

}  // namespace dslide
