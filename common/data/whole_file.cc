#include "common/data/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace dslide {
namespace {

Error SystemError(const std::string& path, const char* what) {
  return Failed(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

Status WriteAll(int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return SystemError(path, "cannot write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status WriteSynced(const std::string& path, std::span<const std::string_view> parts) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return SystemError(path, "cannot create");
  Status status;
  for (const std::string_view part : parts) {
    if (status.ok()) status = WriteAll(fd, path, part);
  }
  if (status.ok() && fsync(fd) != 0) status = SystemError(path, "cannot sync");
  close(fd);
  if (!status.ok()) unlink(path.c_str());
  return status;
}

}  // namespace

Result<std::string> ReadWholeFile(const std::string& path) {
  const auto failed = [&](const char* what) {
    return BadInput(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed("cannot open");
  std::string bytes;
  char part[1 << 16];
  while (true) {
    const ssize_t n = read(fd, part, sizeof(part));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const Error error = failed("cannot read");
      close(fd);
      return error;
    }
    if (n == 0) break;
    bytes.append(part, static_cast<size_t>(n));
  }
  close(fd);
  return bytes;
}

Status WriteWholeFile(const std::string& path, std::string_view bytes) {
  return WriteWholeFile(path, std::span(&bytes, 1));
}

Status WriteWholeFile(const std::string& path, std::span<const std::string_view> parts) {
  const std::string temporary = path + ".tmp";
  DSLIDE_RETURN_IF_ERROR(WriteSynced(temporary, parts));
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return SystemError(path, "cannot rename to");
  }
  return SyncDirectory(std::filesystem::absolute(path).parent_path());
}

Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError(path, "cannot open");
  const bool synced = fsync(fd) == 0;
  close(fd);
  if (!synced) return SystemError(path, "cannot sync");
  return {};
}

}  // namespace dslide
