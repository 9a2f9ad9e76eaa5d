// The calling thread and its children may run on one CPU while this object lives.
#pragma once

#include <doctest/doctest.h>
#include <sched.h>

#include <vector>

#include "common/base/cgroup.h"

namespace dslide {

class OneCpu {
 public:
  OneCpu() : before_(AffinityMask()) {
    const auto cpu = static_cast<size_t>(sched_getcpu());
    std::vector<cpu_set_t> one(before_.size());
    CPU_SET_S(cpu, Bytes(), one.data());
    REQUIRE(sched_setaffinity(0, Bytes(), one.data()) == 0);
  }
  ~OneCpu() { (void)sched_setaffinity(0, Bytes(), before_.data()); }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;

 private:
  size_t Bytes() const { return before_.size() * sizeof(cpu_set_t); }

  const std::vector<cpu_set_t> before_;
};

}  // namespace dslide
