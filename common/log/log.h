// The log of an executable: spdlog on standard error, a line an event:
// "2026-11-26T12:00:00.000 info server-1 [scheduler.join] joined as server-1".
//
// With the environment variable DSLIDE_LOG=json a line is a JSON object: time, level, role, name,
// run (once it is known, 16 hexadecimal digits), code, message, and fields where the
// event has some. So are the lines of PrintLine() and PrintFailure().
#pragma once

#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/log/event.h"

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

void LogDebug(const Event& event);
void LogInfo(const Event& event);
void LogWarning(const Event& event);

// The text on standard output, for a person who watches the process.
void PrintLine(const Event& event);
// Why the process ends, on standard error: "PROGRAM: MESSAGE". In JSON its level is "error", its
// code process.fail.
void PrintFailure(const std::string& program, const std::string& message);
// The message of such a line of `program` in a log; nullopt: another line.
std::optional<std::string> FailureIn(const std::string& line, const std::string& program);

}  // namespace dslide
