// A whole cluster as its scheduler's status shows it: what keeps it from training, or from training
// fast. Asks nobody: what was asked is in the status.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/dslide/doctor/finding.h"

namespace dslide {

// `status`: the body of /api/status. `version`: this program's. What the status does not say, or
// says in another form, is left out.
void JudgeCluster(const nlohmann::json& status, const std::string& version, Findings* findings);

}  // namespace dslide
