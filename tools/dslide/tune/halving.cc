#include "tools/dslide/tune/halving.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

constexpr uint32_t kEta = 3;
constexpr double kPlannedShare =
    0.9;  // of the time that is left; the rest is for estimates' errors

uint32_t Power(size_t exponent) {
  uint32_t power = 1;
  for (size_t i = 0; i < exponent; ++i) power *= kEta;
  return power;
}

uint32_t Share(uint32_t epochs, uint32_t divisor) {
  return static_cast<uint32_t>(std::lround(1.0 * epochs / divisor));
}

// How often a whole run can be cut to a third before it is shorter than least_epochs.
size_t MostCuts(const CandidateShape& shape, uint32_t least_epochs) {
  size_t cuts = 0;
  while (Share(shape.epochs, Power(cuts + 1)) >= least_epochs) ++cuts;
  return cuts;
}

// Rungs with divisors from 3^first down to 3^last.
std::vector<Rung> RungsOf(uint32_t candidates, size_t first, size_t last) {
  std::vector<Rung> rungs;
  for (size_t cuts = first + 1; cuts-- > last;) {
    rungs.push_back({candidates / Power(first - cuts), Power(cuts)});
  }
  return rungs;
}

// Estimated, with the slowest candidates in every rung after the first.
double SecondsOf(const std::vector<Rung>& rungs, std::span<const CandidateShape> shapes,
                 uint32_t least_epochs, const RunTimes& times) {
  const auto seconds_of = [&](const Rung& rung, const CandidateShape& shape) {
    return times.Estimate(EpochsIn(rung, shape, least_epochs), shape.weight);
  };
  double seconds = 0;
  for (const Rung& rung : rungs) {
    std::vector<double> costs;
    for (const CandidateShape& shape : shapes.first(rungs.front().candidates)) {
      costs.push_back(seconds_of(rung, shape));
    }
    std::ranges::sort(costs, std::greater());
    seconds += std::accumulate(costs.begin(), costs.begin() + rung.candidates, 0.0);
  }
  if (rungs.size() > 1) seconds += seconds_of(rungs.back(), shapes[0]);
  return seconds;
}

}  // namespace

void RunTimes::Add(uint32_t epochs, double weight, const TuneOutcome& outcome) {
  runs_ += 1;
  epochs_ += epochs * weight;
  train_seconds_ += outcome.train_seconds;
  other_seconds_ += std::max(0.0, outcome.seconds - outcome.train_seconds);
}

double RunTimes::Estimate(uint32_t epochs, double weight) const {
  return other_seconds() + epochs * weight * epoch_seconds();
}

uint32_t EpochsIn(const Rung& rung, const CandidateShape& shape, uint32_t least_epochs) {
  return std::max(Share(shape.epochs, rung.divisor), std::min(least_epochs, shape.epochs));
}

HalvingPlan PlanHalving(std::span<const CandidateShape> shapes, uint32_t least_epochs,
                        const RunTimes& times, double seconds) {
  DSLIDE_CHECK(!shapes.empty());
  const size_t cuts = MostCuts(shapes[0], least_epochs);
  for (size_t last = 0; last <= cuts; ++last) {
    for (size_t first = cuts + 1; first-- > last;) {
      const uint32_t fewest = std::max(2u, Power(first - last));
      for (auto n = static_cast<uint32_t>(shapes.size()); n >= fewest; --n) {
        const std::vector<Rung> rungs = RungsOf(n, first, last);
        const double estimate = SecondsOf(rungs, shapes, least_epochs, times);
        if (estimate <= kPlannedShare * seconds) return {rungs, estimate};
      }
    }
  }
  return {};
}

uint32_t EpochsOf(const HalvingPlan& plan, std::span<const CandidateShape> shapes,
                  uint32_t least_epochs) {
  uint32_t epochs = 0;
  for (const Rung& rung : plan.rungs) {
    std::vector<uint32_t> of_runs;
    for (const CandidateShape& shape : shapes.first(plan.rungs.front().candidates)) {
      of_runs.push_back(EpochsIn(rung, shape, least_epochs));
    }
    std::ranges::sort(of_runs, std::greater());
    epochs += std::accumulate(of_runs.begin(), of_runs.begin() + rung.candidates, 0u);
  }
  if (plan.rungs.size() > 1) epochs += EpochsIn(plan.rungs.back(), shapes[0], least_epochs);
  return epochs;
}

Halving::Halving(std::vector<CandidateShape> shapes, uint32_t least_epochs, RunTimes times,
                 double budget_s, double spent_s)
    : shapes_(std::move(shapes)),
      least_epochs_(least_epochs),
      times_(times),
      budget_s_(budget_s),
      plan_(PlanHalving(shapes_, least_epochs, times, budget_s - spent_s)),
      out_(shapes_.size(), false) {
  if (plan_.rungs.empty()) return;
  queue_.resize(plan_.rungs.front().candidates);
  std::iota(queue_.begin(), queue_.end(), size_t{0});
}

std::optional<TuneRun> Halving::Next(double spent_s,
                                     const std::function<bool(const TuneRun&)>& is_known) {
  while (next_ < queue_.size() || Promote()) {
    const TuneRun run = RunOf(queue_[next_++]);
    if (is_known && is_known(run)) return run;
    if (spent_s + Estimate(run) <= budget_s_) return run;
    ++left_out_;
  }
  return std::nullopt;
}

void Halving::Finish(const TuneRun& run, const TuneOutcome& outcome) {
  DSLIDE_CHECK(run.candidate < shapes_.size());
  if (!outcome.ok) {
    out_[run.candidate] = true;
    return;
  }
  times_.Add(run.epochs, shapes_[run.candidate].weight, outcome);
  scores_.push_back({run.candidate, outcome.measure, outcome.cpu_seconds});
}

double Halving::Estimate(const TuneRun& run) const {
  return times_.Estimate(run.epochs, shapes_[run.candidate].weight);
}

TuneRun Halving::RunOf(size_t candidate) const {
  return {candidate, EpochsIn(plan_.rungs[rung_], shapes_[candidate], least_epochs_), rung_};
}

// Begins the next rung; false: there is none, or nothing is left for it.
bool Halving::Promote() {
  if (rung_ + 1 >= plan_.rungs.size()) return false;
  ++rung_;
  std::ranges::sort(scores_, [](const Score& a, const Score& b) {
    return std::tuple(-a.measure, a.cpu_seconds, a.candidate) <
           std::tuple(-b.measure, b.cpu_seconds, b.candidate);
  });
  queue_.clear();
  next_ = 0;
  for (const Score& score : scores_) {
    if (queue_.size() < plan_.rungs[rung_].candidates) queue_.push_back(score.candidate);
  }
  scores_.clear();
  const bool is_last = rung_ + 1 == plan_.rungs.size();
  if (is_last && !out_[0] && std::ranges::count(queue_, size_t{0}) == 0) queue_.push_back(0);
  return !queue_.empty();
}

}  // namespace dslide
