#include "scheduler/status/line_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/log/log.h"
#include "scheduler/base/events.h"

namespace dslide {

LineFile::LineFile(std::string path)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (file_ < 0) state_ = Failed(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
}

LineFile::~LineFile() {
  if (file_ >= 0) close(file_);
}

void LineFile::Append(std::string_view line) {
  if (file_ < 0) return;
  const off_t end = lseek(file_, 0, SEEK_END);
  std::string text(line);
  text += '\n';
  size_t written = 0;
  ssize_t count = 0;
  while (written < text.size()) {
    count = write(file_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<size_t>(count);
  }
  if (written == text.size()) {
    failing_ = false;
    return;
  }
  const int error = errno;
  if (written > 0 && ftruncate(file_, end) != 0) {
    LogWarning({event::kRecordsFailed, path_ + ": a line of it is cut"});
  }
  if (std::exchange(failing_, true)) return;
  LogWarning({event::kRecordsFailed,
              fmt::format("{}: cannot write: {}; its lines are left out until that works", path_,
                          std::strerror(error))});
}

}  // namespace dslide
