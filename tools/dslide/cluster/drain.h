// Draining: a server hands its slots to the others and leaves the cluster.
#pragma once

#include <functional>
#include <string>

#include "common/base/error.h"
#include "tools/dslide/cluster/observer.h"

namespace dslide {

struct DrainOptions {
  int64_t poll_ms = 200;          // from one look at the status to the next
  int64_t patience_ms = 600'000;  // without progress
};

// Asks the scheduler to drain a server and returns when it has left; `say` gets a line whenever the
// number of its slots falls. Errors: kFailed with the servers' names if none is called `name`, if
// the scheduler refuses or if the run ends first; kTryLater if no slot moves for patience_ms.
Status Drain(Observer& observer, const std::string& name,
             const std::function<void(const std::string& line)>& say,
             const DrainOptions& options = {});

}  // namespace dslide
