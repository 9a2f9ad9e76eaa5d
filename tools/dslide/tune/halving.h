// Successive halving in a time budget: many candidates for a short run, the best third of them for
// a run three times as long, and so on (Jamieson, Talwalkar: "Non-stochastic Best Arm
// Identification and Hyperparameter Optimization", AISTATS 2016; the rungs are those of a bracket
// of Hyperband: Li et al., JMLR 2018, with eta = 3). Pure: measured times and results come in, the
// next run comes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace dslide {

struct CandidateShape {
  uint32_t epochs = 1;  // of a whole run
  double weight = 1;    // estimated time of an epoch, relative to candidate 0
};

struct TuneRun {
  size_t candidate = 0;
  uint32_t epochs = 1;
  size_t rung = 0;

  bool operator==(const TuneRun&) const = default;
};

struct TuneOutcome {
  bool ok = false;  // false: the candidate is out
  double measure = 0;
  double cpu_seconds = 0;
  double seconds = 0;        // of the whole run
  double train_seconds = 0;  // of these, training
};

// How long a run takes: a fixed part, and a part for each epoch, both measured.
class RunTimes {
 public:
  // REQUIRES epochs > 0 and weight > 0.
  void Add(uint32_t epochs, double weight, const TuneOutcome& outcome);
  double Estimate(uint32_t epochs, double weight) const;

  double epoch_seconds() const { return epochs_ > 0 ? train_seconds_ / epochs_ : 0; }  // weight 1
  double other_seconds() const { return runs_ > 0 ? other_seconds_ / runs_ : 0; }

 private:
  double runs_ = 0, epochs_ = 0;  // epochs times their weight
  double train_seconds_ = 0, other_seconds_ = 0;
};

// `candidates` runs of a `divisor`-th of their epochs.
struct Rung {
  uint32_t candidates = 0;
  uint32_t divisor = 1;

  bool operator==(const Rung&) const = default;
};

// Rung r has a third of the candidates of rung r - 1, rounded down. In the last one candidate 0
// runs too, so that what is found is compared with it.
struct HalvingPlan {
  std::vector<Rung> rungs;  // empty: there is no time for two runs
  double seconds = 0;       // estimated, if the candidates that go on are the slowest
};

// Epochs of a run in a rung.
uint32_t EpochsIn(const Rung& rung, const CandidateShape& shape, uint32_t least_epochs);

// The plan with the longest last runs, then the most rungs, then the most candidates (the first of
// `shapes`) that is estimated to take 90 % of `seconds` at most. REQUIRES a shape.
HalvingPlan PlanHalving(std::span<const CandidateShape> shapes, uint32_t least_epochs,
                        const RunTimes& times, double seconds);

// Epochs of all runs of a plan, with the longest candidates in every rung after the first.
uint32_t EpochsOf(const HalvingPlan& plan, std::span<const CandidateShape> shapes,
                  uint32_t least_epochs);

class Halving {
 public:
  // Times are counted from the start of the tuning; `times` are those measured in `spent_s`.
  // REQUIRES a shape. `least_epochs`: no run is shorter, unless a whole run is.
  Halving(std::vector<CandidateShape> shapes, uint32_t least_epochs, RunTimes times,
          double budget_s, double spent_s);

  const HalvingPlan& plan() const { return plan_; }
  const RunTimes& times() const { return times_; }

  // The run to start now; nullopt: none. Runs that would end after the budget are left out, except
  // if their outcome `is_known` and costs no time. REQUIRES that the last one was finished.
  std::optional<TuneRun> Next(double spent_s,
                              const std::function<bool(const TuneRun&)>& is_known = {});
  void Finish(const TuneRun& run, const TuneOutcome& outcome);

  double Estimate(const TuneRun& run) const;
  uint32_t left_out() const { return left_out_; }  // runs, for lack of time

 private:
  struct Score {
    size_t candidate;
    double measure, cpu_seconds;
  };

  TuneRun RunOf(size_t candidate) const;
  bool Promote();

  std::vector<CandidateShape> shapes_;
  uint32_t least_epochs_;
  RunTimes times_;
  double budget_s_;
  HalvingPlan plan_;

  size_t rung_ = 0;
  std::vector<size_t> queue_;  // candidates of the rung, in the order of their runs
  size_t next_ = 0;            // in queue_
  std::vector<Score> scores_;  // of the rung
  std::vector<bool> out_;      // by candidate: a run of it has failed
  uint32_t left_out_ = 0;
};

}  // namespace dslide
