// Notices that a model becomes worse while it trains, as the gradients of liars make it, or a
// learning rate that is too high.
//
// The training loss of a window of batches is compared with the lowest of the windows before. A
// window's loss is the median over contributors (keys, else workers) of their mean losses, so that
// less than half of them cannot raise or hide an alarm by what they report. The loss is in nats:
// log(labels) is that of a model that knows nothing, and the limits are shares of it. Pure; owned
// by the scheduler's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

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

  // `epoch_batches`: of an epoch; a window has a twentieth of them. `labels` >= 2.
  DriftAlarm(uint64_t epoch_batches, uint32_t labels);

  // A batch counts. `loss`: the mean of its samples, finite.
  void Add(const std::string& contributor, double loss);

  // The last windows drift: go back to a checkpoint, and call WentBack().
  bool drifting() const { return in_row_ >= kWindowsInRow; }
  // Whether there is a loss to compare with.
  bool judges() const { return lowest_.has_value(); }
  // Whether the last batches show no rise; what was trained before them may be saved.
  bool calm() const;
  // Batches since the beginning.
  uint64_t batches() const { return batches_; }
  // Batches of each contributor since the last complete window that was calm.
  const std::map<std::string, uint64_t>& suspects() const { return suspects_; }
  double loss() const { return last_; }  // of the last complete window; 0: none
  double lowest() const { return lowest_.value_or(0.0); }

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
  };
  using Window = std::map<std::string, Mean>;

  static double LossOf(const Window& window);
  bool Above(double loss, double share) const {
    return lowest_ && loss > *lowest_ + share * scale_;
  }

  uint64_t window_batches_;
  double scale_;  // log(labels)
  uint64_t batches_ = 0;
  Window window_;
  uint64_t in_window_ = 0;
  Window trial_;  // of the last kTrial to 2 kTrial batches, in two halves
  Window trial_before_;
  uint64_t in_trial_ = 0;
  std::optional<double> lowest_;
  std::optional<double> saved_;  // the lowest when the newest checkpoint was complete
  double last_ = 0;
  uint32_t in_row_ = 0;
  uint32_t returns_ = 0;
  std::map<std::string, uint64_t> suspects_;
};

}  // namespace dslide
