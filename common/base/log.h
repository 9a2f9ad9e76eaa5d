// The log of an executable: spdlog on standard error, one line a message.
//
// With the environment variable DSLIDE_LOG=json a line is a JSON object: time, level, role, name,
// run (once it is known, 16 hexadecimal digits) and message.
#pragma once

#include <string>

#include "common/base/ids.h"

namespace dslide {

// Sets level ("trace" ... "error"), and the process's role and name for every line. An empty name:
// the role.
void StartLog(const std::string& role, const std::string& name, const std::string& level);

// Changes the process's name in all later lines.
void RenameLog(const std::string& name);
// Names the run in all later lines that are JSON. Threads may log meanwhile.
void NameRunInLog(RunId run);

void LogInfo(const std::string& line);
void LogWarning(const std::string& line);

}  // namespace dslide
