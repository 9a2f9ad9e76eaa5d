#include "common/base/log.h"

#include <fmt/chrono.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace dslide {
namespace {

std::atomic<uint64_t> g_run = 0;

class JsonLines : public spdlog::formatter {
 public:
  explicit JsonLines(std::string role) : role_(std::move(role)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    using std::chrono::floor;
    const auto time = floor<std::chrono::milliseconds>(message.time);
    const auto seconds = floor<std::chrono::seconds>(time);
    nlohmann::ordered_json json;
    json["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                               fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                               (time - seconds).count());
    json["level"] = Text(spdlog::level::to_string_view(message.level));
    json["role"] = role_;
    json["name"] = Text(message.logger_name);
    if (const uint64_t run = g_run.load()) json["run"] = fmt::format("{:016x}", run);
    json["message"] = Text(message.payload);
    // An address or a path may not be UTF-8.
    const std::string text =
        json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonLines>(role_);
  }

 private:
  static std::string Text(spdlog::string_view_t text) {
    return std::string(text.data(), text.size());
  }

  std::string role_;
};

bool WantsJson() {
  const char* format = std::getenv("DSLIDE_LOG");
  return format != nullptr && std::string_view(format) == "json";
}

}  // namespace

void StartLog(const std::string& role, const std::string& name, const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>(name.empty() ? role : name,
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (WantsJson()) {
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

void LogInfo(const std::string& line) { spdlog::info("{}", line); }
void LogWarning(const std::string& line) { spdlog::warn("{}", line); }

}  // namespace dslide
