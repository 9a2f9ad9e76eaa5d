#include "common/checkpoint/file_checksum.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

namespace dslide {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

struct StreamChecksum::Impl {
  Impl() : state(XXH3_createState()) {
    if (state == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state);
  }
  ~Impl() { XXH3_freeState(state); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  XXH3_state_t* state;
};

StreamChecksum::StreamChecksum() : impl_(std::make_unique<Impl>()) {}
StreamChecksum::~StreamChecksum() = default;
StreamChecksum::StreamChecksum(StreamChecksum&&) noexcept = default;
StreamChecksum& StreamChecksum::operator=(StreamChecksum&&) noexcept = default;

void StreamChecksum::Add(const void* data, size_t bytes) {
  XXH3_64bits_update(impl_->state, data, bytes);
}

uint64_t StreamChecksum::Value() const { return XXH3_64bits_digest(impl_->state); }

uint64_t ChecksumOf(std::span<const uint8_t> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Result<uint64_t> FileChecksum(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  StreamChecksum sum;
  std::vector<uint8_t> buffer(kReadBytes);
  ssize_t n = 0;
  do {
    n = read(fd, buffer.data(), buffer.size());
    if (n > 0) sum.Add(buffer.data(), static_cast<size_t>(n));
  } while (n > 0 || (n < 0 && errno == EINTR));
  const int error = errno;
  close(fd);
  if (n < 0) return Failed(fmt::format("{}: cannot read: {}", path, std::strerror(error)));
  return sum.Value();
}

}  // namespace dslide
