#include "scheduler/pass/draw_control.h"

#include <algorithm>
#include <cmath>

namespace dslide {
namespace {

// Of the step to the number that a batch's error asks for, in logarithms: some twenty batches say
// where the number goes.
constexpr double kGain = 0.05;

}  // namespace

DrawControl::DrawControl(const Config& config)
    : fixed_(config.model.active != ActiveSet::kMass || config.model.negatives > 0 ||
             IsSynchronous(config.train)),
      wanted_(config.model.tail_error),
      least_(std::min(config.model.labels, kLeast)),
      most_(std::min(config.model.labels, kMost)),
      draws_(FirstDraws(config.model)) {}

void DrawControl::Take(const BatchDone& done) {
  if (fixed_ || done.probed == 0 || !(done.tail_error > 0)) return;
  const double error = done.tail_error / done.probed;
  const double asked = std::clamp(error * error / (wanted_ * wanted_), 0.1, 10.0);
  draws_ = std::clamp(draws_ * std::pow(asked, kGain), least_, most_);
}

}  // namespace dslide
