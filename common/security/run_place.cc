#include "common/security/run_place.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "file://";

// A scheduler, or the command that starts it, makes one of these first.
bool IsBegun(const fs::path& directory) {
  constexpr const char* kFirst[] = {"config.ini", "keys", "ledger", "logs"};
  return std::ranges::any_of(kFirst, [&](const char* name) {
    std::error_code ignored;
    return fs::exists(directory / name, ignored);
  });
}

Error HasNoAddress(const std::string& place, const fs::path& directory) {
  const std::string what = fmt::format(
      "{}: has no {}, which a scheduler writes when it has read its data, or the "
      "beginning of a stream; ",
      place, kAddressName);
  if (IsBegun(directory)) return TryLater(what + "try again then");
  return BadInput(what + "give a run directory, or the address of a scheduler");
}

}  // namespace

Result<std::optional<RunPlace>> RunPlaceOf(const std::string& place) {
  const bool is_url = place.starts_with(kFile);
  const fs::path path = is_url ? place.substr(kFile.size()) : place;
  if (is_url && !path.is_absolute()) {
    return BadInput(
        fmt::format("{}: a file's address is file:///PATH, with the whole path", place));
  }
  std::error_code error;
  if (!path.empty() && fs::is_directory(path, error)) {
    const fs::path file = fs::absolute(path, error) / kAddressName;
    if (!fs::exists(file, error)) return HasNoAddress(place, path);
    return std::optional(RunPlace{file.string(), path.string()});
  }
  if (is_url || fs::is_regular_file(path, error)) {
    const fs::path file = fs::absolute(path, error);
    return std::optional(RunPlace{file.string(), file.parent_path().string()});
  }
  if (!place.empty() && place.find(':') == std::string::npos) {
    return BadInput(fmt::format("{}: not a run directory or an address (tcp://HOST:PORT)", place));
  }
  return std::optional<RunPlace>();
}

Result<SchedulerAccess> AccessTo(const std::string& place, const std::string& key_file,
                                 const std::string& role) {
  const Result<std::optional<RunPlace>> run = RunPlaceOf(place);
  DSLIDE_RETURN_IF_ERROR(run);
  if (!run->has_value()) return AccessFrom(place, key_file);
  std::error_code error;
  const fs::path key = fs::path((*run)->directory) / "keys" / (role + ".key");
  const bool has_key = key_file.empty() && fs::exists(key, error);
  return AccessFrom(std::string(kFile) + (*run)->address_file, has_key ? key.string() : key_file);
}

}  // namespace dslide
