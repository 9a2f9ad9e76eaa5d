#include "common/data/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/data/output_file.h"

namespace dslide {
namespace {

Error SystemError(const std::string& path, const char* what) {
  return Failed(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
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
  Result<OutputFile> file = OutputFile::Create(path);
  if (!file.ok()) return Failed(file.error().message);
  for (const std::string_view part : parts) file->Write(part);
  return file->FinishSynced();
}

Status WriteSecretFile(const std::string& path, std::string_view bytes) {
  Result<OutputFile> file = OutputFile::CreateSecret(path);
  if (!file.ok()) return Failed(file.error().message);
  file->Write(bytes);
  return file->FinishSynced();
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
