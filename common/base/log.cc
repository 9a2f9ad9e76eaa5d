#include "common/base/log.h"

#include <fmt/chrono.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace dslide {
namespace {

std::atomic<uint64_t> g_run = 0;

std::string TextOf(spdlog::string_view_t text) { return std::string(text.data(), text.size()); }

std::string JsonLine(spdlog::log_clock::time_point at, spdlog::level::level_enum level,
                     const std::string& role, const std::string& name, const std::string& text) {
  using std::chrono::floor;
  const auto time = floor<std::chrono::milliseconds>(at);
  const auto seconds = floor<std::chrono::seconds>(time);
  nlohmann::ordered_json json;
  json["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                             fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                             (time - seconds).count());
  json["level"] = TextOf(spdlog::level::to_string_view(level));
  json["role"] = role;
  json["name"] = name;
  if (const uint64_t run = g_run.load()) json["run"] = fmt::format("{:016x}", run);
  json["message"] = text;
  // An address or a path may not be UTF-8.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

class JsonLines : public spdlog::formatter {
 public:
  explicit JsonLines(std::string role) : role_(std::move(role)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::string text = JsonLine(message.time, message.level, role_,
                                      TextOf(message.logger_name), TextOf(message.payload));
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonLines>(role_);
  }

 private:
  std::string role_;
};

std::string g_role;  // set before there are threads

std::string FormatAsked() {
  const char* format = std::getenv("DSLIDE_LOG");
  return format == nullptr ? "" : format;
}

std::string JsonNow(spdlog::level::level_enum level, const std::string& text) {
  return JsonLine(spdlog::log_clock::now(), level, g_role, spdlog::default_logger()->name(), text);
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
  if (LogsJson()) {
    logger->set_formatter(std::make_unique<JsonLines>(role));
  } else {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %n: %v");
  }
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void RenameLog(const std::string& name) {
  if (spdlog::default_logger()->name() == name) return;
  spdlog::set_default_logger(spdlog::default_logger()->clone(name));
}

void NameRunInLog(RunId run) { g_run = run.value; }

void LogDebug(const std::string& line) { spdlog::debug("{}", line); }
void LogInfo(const std::string& line) { spdlog::info("{}", line); }
void LogWarning(const std::string& line) { spdlog::warn("{}", line); }

// By fputs: a closed pipe or a full disk must not end the process.
void PrintLine(const std::string& line) {
  std::fputs((LogsJson() ? JsonNow(spdlog::level::info, line) : line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void PrintFailure(const std::string& program, const std::string& message) {
  const std::string line =
      LogsJson() ? JsonNow(spdlog::level::err, fmt::format("{}: {}", program, message))
                 : fmt::format("{}: {}\n", program, message);
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
