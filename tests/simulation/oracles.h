// What must hold in every simulation, whatever went wrong: nothing lost, nothing counted twice.
//
// Processes report what they do; a violation is a line that says what was seen and what was promised.
#pragma once

#include <string>
#include <vector>

#include "tests/simulation/sim_setup.h"
#include "tests/simulation/sim_trace.h"

namespace dslide::sim {

class Oracles {
 public:
  Oracles(const SimSetup* setup, SimTrace* trace) : setup_(*setup), trace_(*trace) {}

  void Violated(std::string line) {
    trace_.Note("ORACLE", "{}", line);
    violations_.push_back(std::move(line));
  }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  const SimSetup& setup_;
  SimTrace& trace_;
  std::vector<std::string> violations_;
};

}  // namespace dslide::sim
