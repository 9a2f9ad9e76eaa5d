#include "common/idle/account.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

namespace dslide {
namespace {

nlohmann::json Json(const Deeds& deeds) {
  return {{"samples", deeds.samples},
          {"cpu_seconds", deeds.cpu_s},
          {"bytes_sent", deeds.bytes_sent},
          {"bytes_received", deeds.bytes_received}};
}

Deeds DeedsFrom(const nlohmann::json& json) {
  return {json.value("samples", uint64_t{0}), json.value("cpu_seconds", 0.0),
          json.value("bytes_sent", uint64_t{0}), json.value("bytes_received", uint64_t{0})};
}

Error FileError(const std::string& path, std::string_view verb) {
  return Failed(
      fmt::format("{}: cannot {}: {}", path, verb, std::generic_category().message(errno)));
}

// An open file that is locked until the end of this object's life.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR)) {
    if (fd_ >= 0) ok_ = flock(fd_, LOCK_EX) == 0;
  }
  ~LockedFile() {
    if (fd_ >= 0) close(fd_);
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  bool ok() const { return ok_; }
  std::string Text() const {
    std::string text(4096, '\0');
    const ssize_t size = pread(fd_, text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return text;
  }
  // In one call, padded to the old length: a process that is killed leaves one text or the other.
  bool Replace(std::string text) const {
    text.resize(std::max(text.size(), Text().size()), '\n');
    return pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  }

 private:
  int fd_;
  bool ok_ = false;
};

}  // namespace

Deeds& Deeds::operator+=(const Deeds& other) {
  samples += other.samples;
  cpu_s += other.cpu_s;
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  return *this;
}

void Totals::Add(const Deeds& done, int32_t on_date) {
  if (date != on_date) today = {};
  date = on_date;
  today += done;
  ever += done;
}

std::string FormatTotals(const Totals& totals) {
  const nlohmann::json json = {
      {"date", totals.date}, {"today", Json(totals.today)}, {"ever", Json(totals.ever)}};
  return json.dump() + "\n";
}

Totals ParseTotals(const std::string& text) try {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  return {json.at("date"), DeedsFrom(json.at("today")), DeedsFrom(json.at("ever"))};
} catch (const nlohmann::json::exception&) {
  return {};
}

Result<Totals> Account::Add(const Deeds& done, int32_t date) {
  if (path_.empty()) {
    kept_.Add(done, date);
    return kept_;
  }
  unwritten_ += done;
  const LockedFile file(path_);
  if (!file.ok()) return FileError(path_, "open");
  Totals totals = ParseTotals(file.Text());
  totals.Add(unwritten_, date);
  if (!file.Replace(FormatTotals(totals))) return FileError(path_, "write");
  unwritten_ = {};
  return totals;
}

}  // namespace dslide
