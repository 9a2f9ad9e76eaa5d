#include "scheduler/stream/spool.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "input-";

}  // namespace

Result<Spool> Spool::Open(const std::string& directory) {
  Spool spool(directory);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return Failed(fmt::format("{}: cannot create: {}", directory, error.message()));
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const uint64_t begin = std::strtoull(name.c_str() + std::strlen(kPrefix), nullptr, 10);
    spool.files_[begin] = entry.file_size(error);
  }
  if (error) return Failed(fmt::format("{}: cannot list: {}", directory, error.message()));
  if (spool.files_.empty()) spool.files_[0] = 0;
  uint64_t end = spool.begin();
  for (const auto& [begin, size] : spool.files_) {
    if (begin != end) return spool.Gone(end, begin);
    end = begin + size;
  }
  spool.end_ = end;
  DSLIDE_RETURN_IF_ERROR(spool.WriteTo(spool.files_.rbegin()->first));
  return spool;
}

Spool::Spool(Spool&& other) noexcept
    : directory_(std::move(other.directory_)),
      files_(std::move(other.files_)),
      end_(other.end_),
      last_(std::exchange(other.last_, -1)) {}

Spool::~Spool() {
  if (last_ >= 0) close(last_);
}

std::string Spool::PathOf(uint64_t begin) const {
  return fmt::format("{}/{}{:020}", directory_, kPrefix, begin);
}

Error Spool::Failure(uint64_t begin, const char* verb) const {
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  const std::string line =
      fmt::format("{}: cannot {}: {}", PathOf(begin), verb, std::strerror(errno));
  return full ? TryLater(line) : Failed(line);
}

Error Spool::Gone(uint64_t begin, uint64_t end) const {
  return BadInput(fmt::format("{}: bytes {} to {} of the stream are gone", directory_, begin, end));
}

Status Spool::WriteTo(uint64_t begin) {
  const int file = open(PathOf(begin).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return Failure(begin, "open");
  if (last_ >= 0) close(last_);
  last_ = file;
  files_.try_emplace(begin, 0);
  return {};
}

Status Spool::RollIfFull() {
  if (files_.rbegin()->second < kFileBytes) return {};
  DSLIDE_RETURN_IF_ERROR(Sync());
  return WriteTo(end_);
}

Status Spool::Append(std::string_view bytes) {
  DSLIDE_RETURN_IF_ERROR(RollIfFull());
  uint64_t& size = files_.rbegin()->second;
  while (!bytes.empty()) {
    const ssize_t written = pwrite(last_, bytes.data(), bytes.size(), static_cast<off_t>(size));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure(files_.rbegin()->first, "write");
    size += static_cast<uint64_t>(written);
    end_ += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<std::optional<size_t>> Spool::Splice(int pipe, size_t most) {
  DSLIDE_RETURN_IF_ERROR(RollIfFull());
  uint64_t& size = files_.rbegin()->second;
  auto at = static_cast<loff_t>(size);
  const ssize_t moved = splice(pipe, nullptr, last_, &at, most, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<size_t>();
  if (moved < 0) return Failure(files_.rbegin()->first, "write");
  size += static_cast<uint64_t>(moved);
  end_ += static_cast<uint64_t>(moved);
  return std::optional(static_cast<size_t>(moved));
}

// Not to be tried again: the system may have dropped what it could not write.
Status Spool::Sync() {
  if (fdatasync(last_) == 0) return {};
  return Failed(Failure(files_.rbegin()->first, "sync").message);
}

Result<std::string> Spool::Read(uint64_t begin, uint64_t end) const {
  if (begin < this->begin() || end > end_) return Gone(begin, end);
  std::string bytes(end - begin, '\0');
  for (uint64_t at = begin; at < end;) {
    const auto [first, size] = *std::prev(files_.upper_bound(at));
    const uint64_t count = std::min(end, first + size) - at;
    const std::string path = PathOf(first);
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t got =
        file < 0 ? -1
                 : pread(file, bytes.data() + (at - begin), count, static_cast<off_t>(at - first));
    const int why = errno;
    if (file >= 0) close(file);
    if (got <= 0) {
      return BadInput(fmt::format("{}: cannot read: {}", path,
                                  got < 0 ? std::strerror(why) : "it is shorter than it was"));
    }
    at += static_cast<uint64_t>(got);
  }
  return bytes;
}

void Spool::Forget(uint64_t place) {
  while (files_.size() > 1 && std::next(files_.begin())->first <= place) {
    std::error_code ignored;
    fs::remove(PathOf(files_.begin()->first), ignored);
    files_.erase(files_.begin());
  }
}

}  // namespace dslide
