// Attacks on many clusters: which share one, which clusters run at once, and what is printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "tests/attacks/attack.h"
#include "tests/attacks/ground.h"
#include "tests/attacks/trial.h"

namespace dslide {

struct CampaignOptions {
  bool plain = false;
  Training training = Training::kAsynchronous;
  bool alone = false;     // every attack on a cluster of its own
  bool together = false;  // as many as fit on one cluster, whatever their family
  int64_t run_ms = 3000;
  uint32_t jobs = 1;  // clusters at once
  Limits limits;
  std::string keep;  // where logs go; "": nowhere
};

// Prints a line for each attack, and for the end of each run that several attacks share. Fails if
// one of them has had an effect that it must not have.
//
// Attacks of a family share a cluster, but for those that may change the model. When one of them
// has broken the cluster the next ones get a new one. What becomes of a run is compared with a
// clean run of the same kind. Every cluster is run by a process of its own, forked from this one,
// which must have no threads.
Status RunCampaign(const std::vector<const Attack*>& attacks, const CampaignOptions& options);

}  // namespace dslide
