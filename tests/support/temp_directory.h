// A directory of a test's own.
#pragma once

#include "common/base/check.h"
#include "common/base/temporary_directory.h"

namespace dslide {

class TempDirectory : public TemporaryDirectory {
 public:
  TempDirectory() : TemporaryDirectory("dslide-test-") { DSLIDE_CHECK(ok()); }
};

}  // namespace dslide
