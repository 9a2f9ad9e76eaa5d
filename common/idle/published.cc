#include "common/idle/published.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/idle/user_files.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

std::string FileOf(const std::string& directory, int pid) {
  return fmt::format("{}/worker-{}.json", directory, pid);
}

bool Runs(const PublishedWorker& worker) {
  const std::optional<ProcessTimes> times = TimesOf(worker.pid);
  return times && times->started == worker.started;
}

bool WriteAll(const std::string& path, const std::string& text) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return close(fd) == 0 && written;
}

}  // namespace

std::string FormatPublished(const PublishedWorker& worker) {
  const nlohmann::json json = {{"pid", worker.pid},
                               {"started", worker.started},
                               {"name", worker.name},
                               {"scheduler", worker.scheduler},
                               {"state", worker.state},
                               {"why", worker.why},
                               {"since", worker.since_unix_s},
                               {"until", worker.until_unix_s},
                               {"policy", worker.policy},
                               {"upload_kbit", worker.upload_kbit},
                               {"download_kbit", worker.download_kbit},
                               {"daily_transfer_mb", worker.daily_transfer_mb},
                               {"samples", worker.done.samples},
                               {"cpu_seconds", worker.done.cpu_s},
                               {"bytes_sent", worker.done.bytes_sent},
                               {"bytes_received", worker.done.bytes_received}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<PublishedWorker> ParsePublished(const std::string& text) try {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  PublishedWorker worker;
  worker.pid = json.at("pid");
  worker.started = json.at("started");
  worker.name = json.at("name");
  worker.scheduler = json.at("scheduler");
  worker.state = json.at("state");
  worker.why = json.at("why");
  worker.since_unix_s = json.at("since");
  worker.until_unix_s = json.at("until");
  worker.policy = json.at("policy");
  worker.upload_kbit = json.at("upload_kbit");
  worker.download_kbit = json.at("download_kbit");
  worker.daily_transfer_mb = json.at("daily_transfer_mb");
  worker.done = {json.at("samples"), json.at("cpu_seconds"), json.at("bytes_sent"),
                 json.at("bytes_received")};
  return worker;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

Publisher::Publisher(std::string directory)
    : path_(directory.empty() ? "" : FileOf(directory, getpid())) {
  if (const auto times = TimesOf(getpid())) started_ = times->started;
}

Publisher::~Publisher() {
  if (!path_.empty()) (void)std::remove(path_.c_str());
}

Status Publisher::Publish(PublishedWorker worker) {
  if (path_.empty()) return {};
  worker.pid = getpid();
  worker.started = started_;
  const std::string unfinished = path_ + ".new";
  if (WriteAll(unfinished, FormatPublished(worker)) &&
      std::rename(unfinished.c_str(), path_.c_str()) == 0) {
    return {};
  }
  return Failed(fmt::format("{}: cannot write: {}", path_, std::generic_category().message(errno)));
}

std::vector<PublishedWorker> ReadPublished(const std::string& directory) {
  std::vector<PublishedWorker> workers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string path = entry.path().string();
    int pid = 0;
    if (std::sscanf(entry.path().filename().c_str(), "worker-%d.json", &pid) != 1) continue;
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::optional<PublishedWorker> worker = ParsePublished(text);
    // One that runs may be about to write what cannot be read yet.
    if (worker ? !Runs(*worker) : !TimesOf(pid)) {
      (void)std::remove(path.c_str());
    } else if (worker && path.ends_with(".json")) {
      workers.push_back(*std::move(worker));
    }
  }
  std::ranges::sort(workers, {}, &PublishedWorker::pid);
  return workers;
}

}  // namespace dslide
