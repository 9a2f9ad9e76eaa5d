// The race of a run: which values of some keys train it best (successive halving of trials;
// Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
// 2016).
//
// A trial begins the run that was asked for: all samples, the whole run's schedule, the same seed.
// Trial 0 has the run's own configuration. Each other trial changes one key of the best trial, and
// is compared with it after the same number of epochs, sample by sample (paired). If it is better
// by more than the standard error, the key's next value is tried with it, otherwise the next key.
// The best trial becomes the run.
//
// Pure: the same evaluations give the same choices, also in the next incarnation of the scheduler.
// Used by the scheduler's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/config/config.h"
#include "scheduler/pass/held_out_curve.h"

namespace dslide {

// A key and the values that are tried, in this order, beside the run's own.
struct RaceAxis {
  std::string key;
  std::string own;
  std::vector<std::string> values;
};

// The keys that a run may choose values for, "section.key", in the order in which a race tries
// them: those that are left open. `asked`: the run's configuration before what is left open was
// derived.
std::vector<std::string> OpenKeys(const Config& asked);
// The axes of `keys`, without the keys that have no values to try. `resolved`: the run's
// configuration.
std::vector<RaceAxis> AxesOf(const std::vector<std::string>& keys, const Config& resolved);

inline constexpr char kDropoutKey[] = "train.dropout_hidden";

class Race {
 public:
  // Epochs after which a trial is judged.
  static constexpr uint32_t kTrialEpochs = 3;

  struct Trial {
    Overrides settings;  // beside the run's configuration
    HeldOutCurve curve;
  };

  struct Step {
    enum class Kind {
      kGoOn,   // with the present trial
      kBegin,  // another trial, with `settings`
      kReturn  // to `trial`, the best one
    };
    Kind kind = Kind::kGoOn;
    uint32_t trial = 0;
    Overrides settings = {};
    bool is_best = false;  // the present trial is the best one
  };

  Race() : trials_(1) {}  // without a race
  // `epochs`: that all trials but the first one may take together.
  Race(std::vector<RaceAxis> axes, uint32_t epochs)
      : axes_(std::move(axes)), max_epochs_(epochs), trials_(1) {}

  // Trial `trial`, which may be a new one, is trained from now on.
  void SetCurrent(uint32_t trial, const Overrides& settings);
  // The held-out samples were evaluated: nDCG of each, after so many epochs of the present trial.
  void Add(uint32_t epochs, std::vector<float> ndcg) {
    trials_[current_].curve.Add(epochs, std::move(ndcg));
  }
  // A line for each finished trial: the two means that were compared.
  std::vector<std::string> ResultLines() const { return Stand().lines; }
  // The next step, by all evaluations so far. The caller calls SetCurrent() when it has executed a
  // kBegin or kReturn.
  Step Next() const;

  uint32_t current() const { return current_; }
  size_t trials() const { return trials_.size(); }
  // The curve of the current trial.
  const HeldOutCurve& curve() const { return trials_[current_].curve; }
  // Whether no further trial begins, and the current one is the best.
  bool settled() const;

 private:
  enum class Verdict { kOpen, kWon, kLost };
  // The result of all evaluations so far.
  struct Standing {
    uint32_t best = 0;
    uint32_t epochs = 0;  // of all trials but the first one
    bool open = false;    // the present trial has to be trained further
    size_t axis = 0;      // of the next trial
    size_t value = 0;
    std::vector<std::string> lines = {};
  };

  bool MayBegin(const Standing& standing) const {
    return standing.axis < axes_.size() && standing.epochs + kTrialEpochs <= max_epochs_;
  }
  Verdict Judge(uint32_t trial, uint32_t best) const;
  Standing Stand() const;

  std::vector<RaceAxis> axes_;
  uint32_t max_epochs_ = 0;
  std::vector<Trial> trials_;
  uint32_t current_ = 0;
};

}  // namespace dslide
