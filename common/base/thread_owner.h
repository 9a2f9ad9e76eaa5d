// Checks that one thread uses an object: the first that calls.
#pragma once

#include <thread>

#include "common/base/check.h"

namespace dslide {

class ThreadOwner {
 public:
  void Check() {
    if (owner_ == std::thread::id()) owner_ = std::this_thread::get_id();
    DSLIDE_CHECK(owner_ == std::this_thread::get_id());
  }
  // For calls that are too many to check in a release build.
  void CheckInDebugBuild() {
#ifndef NDEBUG
    Check();
#endif
  }

 private:
  std::thread::id owner_;
};

}  // namespace dslide
