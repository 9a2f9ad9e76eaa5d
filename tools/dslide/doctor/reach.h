// Whether this machine reaches a scheduler and its servers, and is reached by them: name, route,
// port, key, answer, one after the other, so that the first thing that is wrong is what is named.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/security/member_key.h"
#include "tools/dslide/doctor/finding.h"

namespace dslide {

// Takes up to about ten seconds where nothing answers. False: the scheduler was not reached. The
// status that it gave goes to `status`, if that is not null; null JSON: it gave none.
bool CheckScheduler(const SchedulerAccess& access, Findings* findings,
                    nlohmann::json* status = nullptr);

// The same as dslide-server's options.
struct ListeningPlace {
  std::string bind;
  std::string advertise;  // "": the one that reaches the scheduler
};
// Whether this machine can listen there, and, with a scheduler, whether it reaches the advertised
// address: asks to join as a server, and takes no part. With keys it needs a server's.
void CheckListening(const ListeningPlace& place, const std::optional<SchedulerAccess>& access,
                    Findings* findings);

}  // namespace dslide
