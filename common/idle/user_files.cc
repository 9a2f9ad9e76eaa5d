#include "common/idle/user_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace dslide {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::string> OwnDirectory(std::string path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return Failed(
        fmt::format("{}: cannot create: {}", path, std::generic_category().message(errno)));
  }
  struct stat found;
  const bool is_own =
      lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid();
  if (!is_own) return Failed(fmt::format("{}: is not a directory of this user's", path));
  return path;
}

}  // namespace

Result<std::string> RuntimeDirectory() {
  if (const std::string given = Environment("XDG_RUNTIME_DIR"); !given.empty()) {
    return OwnDirectory(given + "/dslide");
  }
  const std::string of_user = fmt::format("/run/user/{}", geteuid());
  std::error_code error;
  if (fs::is_directory(of_user, error)) return OwnDirectory(of_user + "/dslide");
  return OwnDirectory(fmt::format("/tmp/dslide-{}", geteuid()));
}

Result<std::string> StateDirectory() {
  if (const std::string given = Environment("XDG_STATE_HOME"); !given.empty()) {
    return OwnDirectory(given + "/dslide");
  }
  const std::string home = Environment("HOME");
  if (home.empty()) return Failed("neither XDG_STATE_HOME nor HOME is set");
  return OwnDirectory(home + "/.local/state/dslide");
}

// Fields 14, 15 and 22 of /proc/PID/stat. The second is a name in parentheses that may hold any
// character.
std::optional<ProcessTimes> TimesOf(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  std::string state, word;
  words >> state;
  for (int field = 4; field <= 13; ++field) words >> word;
  double user = 0, system = 0;
  words >> user >> system;
  for (int field = 16; field <= 21; ++field) words >> word;
  ProcessTimes times;
  if (!(words >> times.started) || state == "Z" || state == "X") return std::nullopt;
  times.cpu_s = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return times;
}

}  // namespace dslide
