// The log of an executable: spdlog on standard error, one line a message.
//
// With the environment variable DSLIDE_LOG=json a line is a JSON object: time, level, role, name,
// run (once it is known, 16 hexadecimal digits) and message. So are the lines of PrintLine() and
// PrintFailure().
#pragma once

#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace dslide {

// Sets level ("trace" ... "error"), and the process's role and name for every line. An empty name:
// the role.
void StartLog(const std::string& role, const std::string& name, const std::string& level);

// Changes the process's name in all later lines.
void RenameLog(const std::string& name);
// Names the run in all later lines that are JSON. Threads may log meanwhile.
void NameRunInLog(RunId run);

// Whether DSLIDE_LOG asks for JSON. CheckLogFormat() refuses (kBadInput) what it cannot be.
bool LogsJson();
Status CheckLogFormat();

void LogDebug(const std::string& line);
void LogInfo(const std::string& line);
void LogWarning(const std::string& line);

// A line on standard output for whoever watches the process.
void PrintLine(const std::string& line);
// Why the process ends, on standard error: "PROGRAM: MESSAGE". In JSON its level is "error".
void PrintFailure(const std::string& program, const std::string& message);
// The message of such a line of `program` in a log; nullopt: another line.
std::optional<std::string> FailureIn(const std::string& line, const std::string& program);

}  // namespace dslide
