#include "server/rows/tier/tier_file.h"

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
#include "common/log/log.h"

namespace dslide {
namespace {

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

Result<std::unique_ptr<TierFile>> TierFile::Create(const Options& options) {
  const int fd = OpenScratch(options.directory);
  if (fd < 0) return NoFile(options.directory, errno);
  std::unique_ptr<TierFile> file(new TierFile(fd, options));
  if (options.ring) file->io_ = TierIo::ByRing(fd, kTransfers);
  if (file->io_ == nullptr) file->io_ = TierIo::ByThreads(fd);
  if (file->io_ != nullptr) return file;
  return Failed(
      "the disk tier gets neither io_uring nor a thread: raise the limit of processes (ulimit -u, "
      "pids.max), or set cluster.disk_tier = off");
}

TierFile::TierFile(int fd, const Options& options)
    : fd_(fd),
      directory_(options.directory),
      extent_bytes_(options.extent_bytes),
      failure_(options.failure ? options.failure : EndProcess),
      transfers_(kTransfers) {}

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

void TierFile::Grow(uint64_t bytes) {
  DSLIDE_CHECK(bytes >= bytes_);
  if (bytes == bytes_) return;
  const auto end = static_cast<off_t>(bytes);
  if (fallocate(fd_, 0, 0, end) != 0) {
    if (errno != EOPNOTSUPP) Fail(fmt::format("cannot have {} MB", end >> 20), errno);
    if (ftruncate(fd_, end) != 0) Fail(fmt::format("cannot have {} MB", end >> 20), errno);
  }
  bytes_ = bytes;
}

void TierFile::Add(const Transfer& transfer) {
  DSLIDE_CHECK(transfer.index < kTransfers && transfer.offset + transfer.bytes <= bytes_);
  transfers_[transfer.index] = transfer;
  io_->Add(transfer);
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
  for (const auto& [index, result] : outcomes_) {
    const Transfer& transfer = transfers_[index];
    // A ring may have been interrupted, or lack memory: once more, by itself.
    if (result == static_cast<int64_t>(transfer.bytes)) {
      Check(transfer, result);
    } else {
      Repeat(transfer);
    }
    done_.push_back(index);
  }
  return done_;
}

void TierFile::Repeat(const Transfer& t) {
  const auto offset = static_cast<off_t>(t.offset);
  const ssize_t result =
      t.write ? pwrite(fd_, t.data, t.bytes, offset) : pread(fd_, t.data, t.bytes, offset);
  Check(t, result < 0 ? -errno : result);
}

void TierFile::Check(const Transfer& transfer, int64_t result) {
  if (PassFailpoint(transfer.write ? Failpoint::kServerTierWrite : Failpoint::kServerTierRead)) {
    result = transfer.write ? -ENOSPC : -EIO;
  }
  if (result == static_cast<int64_t>(transfer.bytes)) return;
  const int error = result < 0 ? static_cast<int>(-result) : (transfer.write ? ENOSPC : EIO);
  Fail(transfer.write ? "rows cannot be written" : "rows cannot be read", error);
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
