#include "common/idle/account.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/data/file_lock.h"

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

std::string TextOf(int fd) {
  std::string text(4096, '\0');
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return text;
}

// In one call, padded to the old length: a process that is killed leaves one text or the other.
bool Replace(int fd, std::string text) {
  text.resize(std::max(text.size(), TextOf(fd).size()), '\n');
  return pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

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
  const Result<FileLock> file = FileLock::Wait(path_);
  DSLIDE_RETURN_IF_ERROR(file);
  Totals totals = ParseTotals(TextOf(file->fd()));
  totals.Add(unwritten_, date);
  if (!Replace(file->fd(), FormatTotals(totals))) {
    return Failed(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }
  unwritten_ = {};
  return totals;
}

}  // namespace dslide
