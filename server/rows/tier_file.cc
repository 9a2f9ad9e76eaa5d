#include "server/rows/tier_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/vfs.h>
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
constexpr size_t kMostBufferBytes = size_t{2} << 20;
constexpr size_t kPage = 4096;
constexpr size_t kExtentBytes = size_t{1} << 20;

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
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) return named;
  unlink(name.c_str());
  (void)fcntl(named, F_SETFL, flags);  // or through the page cache
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
  std::unique_ptr<TierFile> file(new TierFile(fd, options, bytes));
  if (options.ring) file->io_ = TierIo::ByRing(fd, file->count_);
  if (file->io_ == nullptr) file->io_ = TierIo::ByThreads(fd);
  if (file->io_ != nullptr) return file;
  return Failed(
      "the disk tier gets neither io_uring nor a thread: raise the limit of processes (ulimit -u, "
      "pids.max), or set cluster.disk_tier = off");
}

TierFile::TierFile(int fd, const Options& options, size_t record_bytes)
    : fd_(fd),
      directory_(options.directory),
      failure_(options.failure ? options.failure : EndProcess),
      record_bytes_(record_bytes),
      extent_(std::max<size_t>(1, kExtentBytes / record_bytes)),
      count_(static_cast<uint32_t>(
          std::clamp<size_t>(kMostBufferBytes / record_bytes, 8, kMostBuffers))),
      buffers_(Allocate(count_ * record_bytes)),
      writes_(count_),
      record_of_(count_) {
  for (uint32_t b = count_; b > 0; --b) free_.push_back(b - 1);
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
  const uint64_t last = records_ / extent_, before = records_;
  records_ = records;
  const bool has_part = before % extent_ != 0;
  prepared_.resize((records + extent_ - 1) / extent_);
  if (has_part && prepared_[last]) PrepareFrom(before);
}

// REQUIRES that no write of a record from `first` to the end of its extent is in flight.
void TierFile::PrepareFrom(uint64_t first) {
  const uint64_t extent = first / extent_;
  const auto count = static_cast<uint32_t>(std::min(records_, (extent + 1) * extent_) - first);
  const Aligned records = Allocate(count * record_bytes_);
  ReadNow(first, count, records.get());  // WriteNow() may have been there
  WriteNow(first, count, records.get());
  prepared_[extent] = true;
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
  record_of_[buffer] = record;
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
    // A ring may have been interrupted, or lack memory: once more, by itself.
    if (result == static_cast<int64_t>(record_bytes_)) {
      Check(writes_[buffer] != 0, result, record_bytes_);
    } else if (writes_[buffer] != 0) {
      WriteNow(record_of_[buffer], 1, Buffer(buffer));
    } else {
      ReadNow(record_of_[buffer], 1, Buffer(buffer));
    }
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
  const uint64_t end = (first + count) / extent_;
  for (uint64_t e = (first + extent_ - 1) / extent_; e < end; ++e) prepared_[e] = true;
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
  struct statfs disk = {};
  const int failed = fstatfs(fd, &disk);
  const int error = errno;
  close(fd);
  if (failed != 0) return NoFile(directory, error);
  constexpr uint64_t kMost = uint64_t{1} << 45;  // some file systems tell nonsense
  if (disk.f_type == TMPFS_MAGIC) return uint64_t{0};
  const auto block = static_cast<uint64_t>(disk.f_bsize);
  return std::min<uint64_t>(disk.f_bavail, kMost / block) * block;
}

}  // namespace dslide
