#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace dslide {

void StartLog(const std::string& process, const std::string& level) {
  auto logger =
      std::make_shared<spdlog::logger>(process, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %n: %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void RenameLog(const std::string& process) {
  if (spdlog::default_logger()->name() == process) return;
  spdlog::set_default_logger(spdlog::default_logger()->clone(process));
}

void LogInfo(const std::string& line) { spdlog::info("{}", line); }
void LogWarning(const std::string& line) { spdlog::warn("{}", line); }

}  // namespace dslide
