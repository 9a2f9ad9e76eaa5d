#include "common/base/error.h"

namespace dslide {

int ExitCode(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kFailed:
      return 1;
    case ErrorKind::kBadInput:
      return 2;
    case ErrorKind::kTryLater:
      return 75;
    case ErrorKind::kPreempted:
      return 85;
  }
  DSLIDE_CHECK(false);
  return 1;
}

}  // namespace dslide
