#include "common/app/open_files.h"

#include <fmt/core.h>
#include <sys/resource.h>

namespace dslide {

Status RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};  // unknown: the system still enforces it
  if (limit.rlim_max < kMinOpenFiles) {
    return BadInput(fmt::format(
        "this process may open {} files and needs {}; raise the limit (ulimit -n, LimitNOFILE)",
        limit.rlim_max, kMinOpenFiles));
  }
  const rlim_t soft = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || soft >= kMinOpenFiles) return {};
  return BadInput(fmt::format(
      "this process may open {} files and cannot raise the limit to {} (ulimit -n, LimitNOFILE)",
      soft, kMinOpenFiles));
}

}  // namespace dslide
