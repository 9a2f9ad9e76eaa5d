// What a run directory says of its run, for a report.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// Calls `take` with each record of a file of JSON lines, as a run directory has them. `take` may
// throw what the JSON library throws about a member that is missing or of another type. Errors
// (kBadInput) name the file and the line.
Status ReadRecords(const std::string& path, const std::function<void(const nlohmann::json&)>& take);

// A run as page/report.js wants it: {name, state, finished, history, summary, so_far, config}. The
// run may still be going on: then `summary` is null and `so_far` says what it has cost. Errors
// (kBadInput) name what is missing or damaged, with the line. A last line without its end is being
// written, or was when the machine lost power, and is left out.
Result<nlohmann::ordered_json> ReadRunDirectory(const std::string& run_directory);

// The files that ReadRunDirectory() reads, if they are there. REQUIRES that it could read the run.
std::vector<std::string> FilesOfRun(const std::string& run_directory);

}  // namespace dslide
