#include "server/rows/tier/tier_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace dslide {
namespace {

constexpr uint32_t kMostBuffers = 1024;
constexpr size_t kMostBufferBytes = size_t{4} << 20;
constexpr size_t kPage = 4096;

Error NoFile(const std::string& directory, int error) {
  return BadInput(
      fmt::format("cluster.disk_tier = {}: no file can be made there: {}; name a directory on a "
                  "local disk",
                  directory, std::strerror(error)));
}

// A file without a name; -1: errno says why.
int OpenNameless(const std::string& directory, int flags) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string name = directory + "/dslide-rows-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC | flags);
  if (named >= 0) unlink(name.c_str());
  return named;
}

// Past the page cache, unless the file system cannot do it.
int OpenScratch(const std::string& directory) {
  const int fd = OpenNameless(directory, O_DIRECT);
  if (fd < 0) return errno == EINVAL ? OpenNameless(directory, 0) : fd;
  // Some take the flag and refuse the sector.
  const TierFile::Aligned sector = TierFile::Allocate(TierFile::kSector);
  if (pwrite(fd, sector.get(), TierFile::kSector, TierFile::kSector) < 0 && errno == EINVAL) {
    (void)fcntl(fd, F_SETFL, 0);
  }
  (void)ftruncate(fd, 0);
  return fd;
}

void EndProcess(const std::string& line) {
  PrintFailure("dslide-server", line);
  std::_Exit(ExitCode(ErrorKind::kFailed));
}

}  // namespace

void TierFile::FreeAligned::operator()(uint8_t* memory) const { std::free(memory); }

TierFile::Aligned TierFile::Allocate(size_t bytes) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(kPage, bytes));
  DSLIDE_CHECK(memory != nullptr);
  std::memset(memory, 0, bytes);
  return Aligned(memory);
}

Result<std::unique_ptr<TierFile>> TierFile::Create(const Options& options, size_t payload) {
  const int fd = OpenScratch(options.directory);
  if (fd < 0) return NoFile(options.directory, errno);
  const size_t bytes = (payload + kSector - 1) / kSector * kSector;
  return std::unique_ptr<TierFile>(new TierFile(fd, options, bytes));
}

TierFile::TierFile(int fd, const Options& options, size_t record_bytes)
    : fd_(fd),
      directory_(options.directory),
      failure_(options.failure ? options.failure : EndProcess),
      record_bytes_(record_bytes),
      count_(static_cast<uint32_t>(
          std::clamp<size_t>(kMostBufferBytes / record_bytes, 8, kMostBuffers))),
      buffers_(Allocate(count_ * record_bytes)),
      writes_(count_) {
  for (uint32_t b = count_; b > 0; --b) free_.push_back(b - 1);
  if (options.ring) io_ = TierIo::ByRing(fd_, count_);
  if (io_ == nullptr) io_ = TierIo::ByThreads(fd_);
}

TierFile::~TierFile() {
  while (in_flight_ > 0) {  // into and out of the buffers
    outcomes_.clear();
    io_->Submit();
    io_->Collect(true, &outcomes_);
    in_flight_ -= static_cast<uint32_t>(outcomes_.size());
  }
  io_.reset();
  close(fd_);
}

void TierFile::Grow(uint64_t records) {
  DSLIDE_CHECK(records >= records_);
  if (records == records_) return;
  const auto end = static_cast<off_t>(records * record_bytes_);
  if (fallocate(fd_, 0, 0, end) != 0) {
    if (errno != EOPNOTSUPP) Fail(fmt::format("cannot have {} MB", end >> 20), errno);
    if (ftruncate(fd_, end) != 0) Fail(fmt::format("cannot have {} MB", end >> 20), errno);
  }
  records_ = records;
}

uint32_t TierFile::TakeBuffer() {
  if (free_.empty()) return kNone;
  const uint32_t buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void TierFile::Add(uint32_t buffer, uint64_t record, bool write) {
  DSLIDE_CHECK(record < records_);
  writes_[buffer] = write;
  io_->Add({buffer, write, Buffer(buffer), record_bytes_, record * record_bytes_});
  ++added_;
  ++in_flight_;
}

void TierFile::Submit() {
  if (added_ > 0) io_->Submit();
  added_ = 0;
}

std::span<const uint32_t> TierFile::Await(bool wait) {
  DSLIDE_CHECK(!wait || in_flight_ > 0);
  Submit();
  outcomes_.clear();
  done_.clear();
  io_->Collect(wait, &outcomes_);
  in_flight_ -= static_cast<uint32_t>(outcomes_.size());
  for (const auto& [buffer, result] : outcomes_) {
    Check(writes_[buffer] != 0, result, record_bytes_);
    done_.push_back(buffer);
  }
  return done_;
}

void TierFile::ReadNow(uint64_t first, uint32_t count, uint8_t* data) {
  const size_t bytes = count * record_bytes_;
  const ssize_t result = pread(fd_, data, bytes, static_cast<off_t>(first * record_bytes_));
  Check(false, result < 0 ? -errno : result, bytes);
}

void TierFile::WriteNow(uint64_t first, uint32_t count, const uint8_t* data) {
  const size_t bytes = count * record_bytes_;
  const ssize_t result = pwrite(fd_, data, bytes, static_cast<off_t>(first * record_bytes_));
  Check(true, result < 0 ? -errno : result, bytes);
}

void TierFile::Check(bool write, int64_t result, size_t bytes) {
  if (PassFailpoint(write ? Failpoint::kServerTierWrite : Failpoint::kServerTierRead)) {
    result = write ? -ENOSPC : -EIO;
  }
  if (result == static_cast<int64_t>(bytes)) return;
  const int error = result < 0 ? static_cast<int>(-result) : (write ? ENOSPC : EIO);
  Fail(write ? "rows cannot be written" : "rows cannot be read", error);
}

void TierFile::Fail(const std::string& what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  failure_(fmt::format(
      "the disk tier's file in {} (cluster.disk_tier): {}: {}; {}, and start the server again: it "
      "goes on from the last checkpoint",
      directory_, what, std::strerror(error),
      full ? "make room there or name another directory" : "name a directory on another disk"));
}

Result<uint64_t> FreeForTier(const std::string& directory) {
  const int fd = OpenNameless(directory, 0);
  if (fd < 0) return NoFile(directory, errno);
  struct statvfs disk = {};
  const int failed = fstatvfs(fd, &disk);
  const int error = errno;
  close(fd);
  if (failed != 0) return NoFile(directory, error);
  return uint64_t{disk.f_bavail} * disk.f_frsize;
}

}  // namespace dslide
