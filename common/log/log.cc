#include "common/log/log.h"

#include <fmt/chrono.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/log/events.h"

namespace dslide {
namespace {

std::atomic<uint64_t> g_run = 0;

std::string TextOf(spdlog::string_view_t text) { return std::string(text.data(), text.size()); }

std::string g_role;  // set before there are threads

std::string FormatAsked() {
  const char* format = std::getenv("DSLIDE_LOG");
  return format == nullptr ? "" : format;
}

std::string JsonLine(spdlog::level::level_enum level, const Event& event) {
  using std::chrono::floor;
  const auto at = spdlog::log_clock::now();
  const auto time = floor<std::chrono::milliseconds>(at);
  const auto seconds = floor<std::chrono::seconds>(time);
  nlohmann::ordered_json json;
  json["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                             fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                             (time - seconds).count());
  json["level"] = TextOf(spdlog::level::to_string_view(level));
  json["role"] = g_role;
  json["name"] = spdlog::default_logger()->name();
  if (const uint64_t run = g_run.load()) json["run"] = fmt::format("{:016x}", run);
  json["code"] = event.kind->code;
  json["message"] = event.text;
  if (!event.fields.empty()) json["fields"] = FieldsJson(event.fields);
  // An address or a path may not be UTF-8.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Log(spdlog::level::level_enum level, const Event& event) {
  if (!spdlog::should_log(level)) return;
  if (LogsJson()) {
    spdlog::log(level, "{}", JsonLine(level, event));
  } else {
    spdlog::log(level, "[{}] {}", event.kind->code, event.text);
  }
}

}  // namespace

bool LogsJson() { return FormatAsked() == "json"; }

Status CheckLogFormat() {
  const std::string asked = FormatAsked();
  if (asked.empty() || asked == "text" || asked == "json") return {};
  return BadInput(fmt::format("DSLIDE_LOG = {}: no format of logs; use json or text", asked));
}

void StartLog(const std::string& role, const std::string& name, const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>(name.empty() ? role : name,
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  g_role = role;
  logger->set_pattern(LogsJson() ? "%v" : "%Y-%m-%dT%H:%M:%S.%e %l %n %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void RenameLog(const std::string& name) {
  if (spdlog::default_logger()->name() == name) return;
  spdlog::set_default_logger(spdlog::default_logger()->clone(name));
}

void NameRunInLog(RunId run) { g_run = run.value; }

void LogDebug(const Event& event) { Log(spdlog::level::debug, event); }
void LogInfo(const Event& event) { Log(spdlog::level::info, event); }
void LogWarning(const Event& event) { Log(spdlog::level::warn, event); }

// By fputs: a closed pipe or a full disk must not end the process.
void PrintLine(const Event& event) {
  const std::string line = LogsJson() ? JsonLine(spdlog::level::info, event) : event.text;
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void PrintFailure(const std::string& program, const std::string& message) {
  const std::string text = fmt::format("{}: {}", program, message);
  const std::string line =
      (LogsJson() ? JsonLine(spdlog::level::err, {event::kProcessFailed, text}) : text) + "\n";
  // Standard error may be a log on a full disk.
  if (std::fputs(line.c_str(), stderr) < 0) std::fputs(line.c_str(), stdout);
}

std::optional<std::string> FailureIn(const std::string& line, const std::string& program) {
  std::string text = line;
  if (line.starts_with('{')) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    // It may be a hook's line, in a format of its own.
    const auto part = [&](const char* name) {
      const bool found = json.is_object() && json.contains(name) && json[name].is_string();
      return found ? json[name].get<std::string>() : "";
    };
    if (part("level") != "error") return std::nullopt;
    text = part("message");
  }
  const std::string mark = program + ": ";
  if (!text.starts_with(mark)) return std::nullopt;
  return text.substr(mark.size());
}

}  // namespace dslide
