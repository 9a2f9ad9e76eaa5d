// The opportunistic workers of this machine, as `dslide status --workers` shows them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/idle/account.h"
#include "common/idle/published.h"

namespace dslide {

struct LentWorkers {
  std::vector<PublishedWorker> workers;
  Totals totals;
};

// Of this user, at `now` (UTC seconds). Errors (kFailed) name a directory.
Result<LentWorkers> ReadLentWorkers(int64_t now);

// Lines that end with '\n'.
std::string LentText(const LentWorkers& lent, int64_t now);
std::string LentJson(const LentWorkers& lent);

}  // namespace dslide
