// The model, data and cluster of a simulation: tiny, but real in every mechanism.
//
// A setup follows from its variant alone. Many seeds share a variant, so the result of its
// undisturbed run is computed once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/data/dataset.h"
#include "worker/local_data.h"

namespace dslide::sim {

struct SimSetup {
  uint64_t variant = 0;
  Config config;                   // resolved
  uint32_t servers = 1;            // hosts; those after config.cluster.servers are spares
  uint32_t workers = 1;            // hosts
  uint32_t workers_with_data = 0;  // how many, from the first on, have the training file
  bool fixed_addresses = false;    // a server's next life listens at the same address
  bool with_test = false;
  uint32_t misnamed_server = 0;  // this host advertises an address that is nobody's; 0: none does
  TrainingFile train;
  Dataset test;
  std::vector<uint32_t> held_out;  // numbers of samples of `train`

  uint64_t trained() const { return train.data.size() - held_out.size(); }  // samples of an epoch
  uint64_t batches() const;                                                 // of the whole run
  std::string Describe() const;
};

constexpr uint64_t kVariants = 64;  // that tests draw
SimSetup DrawSetup(uint64_t variant);

}  // namespace dslide::sim
