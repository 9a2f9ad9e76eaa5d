// The log of an executable: spdlog on standard error, one line a message.
#pragma once

#include <string>

namespace dslide {

// Sets level ("trace" ... "error") and the process's name in every line.
void StartLog(const std::string& process, const std::string& level);

// Changes the process's name in all later lines.
void RenameLog(const std::string& process);

void LogInfo(const std::string& line);
void LogWarning(const std::string& line);

}  // namespace dslide
