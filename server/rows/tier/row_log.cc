#include "server/rows/tier/row_log.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

constexpr size_t kLeastRecords = 4;             // of an extent
constexpr size_t kReadBytes = size_t{2} << 20;  // of the buffers of reads
// In flight. Some 100 are as fast as 1,000, and a queue of 256, which many disks have, takes those
// of two executors: with a full queue Submit() would wait.
constexpr uint32_t kMostReads = 128;
constexpr uint32_t kSearched = 4096;   // extents of which the emptiest is cleaned
constexpr uint32_t kSpareExtents = 8;  // for buffers, the reserve, and to be cleaned

// File systems write parts of their blocks one after the other.
constexpr size_t kBlock = 4096;

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

RowLog::RowLog(std::unique_ptr<TierFile> file, size_t payload, Owner* owner)
    : owner_(owner),
      record_bytes_(RoundUp(payload, TierFile::kSector)),
      extent_records_(
          static_cast<uint32_t>(std::max(kLeastRecords, file->extent_bytes() / record_bytes_))),
      extent_bytes_(RoundUp(extent_records_ * (record_bytes_ + sizeof(uint32_t)), kBlock)),
      extents_(TierFile::Allocate((kWriters + 1) * extent_bytes_)),
      cleaner_(extents_.get() + kWriters * extent_bytes_),
      file_(std::move(file)) {
  for (uint32_t w = 0; w < kWriters; ++w) writers_[w].data = extents_.get() + w * extent_bytes_;
  const auto buffers =
      static_cast<uint32_t>(std::clamp<size_t>(kReadBytes / record_bytes_, 8, kMostReads));
  static_assert(kFirstRead + kMostReads <= TierFile::kTransfers);
  reads_ = TierFile::Allocate(buffers * record_bytes_);
  place_of_.resize(buffers);
  for (uint32_t b = buffers; b > 0; --b) free_reads_.push_back(b - 1);
  for (uint32_t s = kScans; s > 0; --s) free_scans_.push_back(kFirstScan + s - 1);
}

uint64_t RowLog::MemoryBytes() const {
  return (kWriters + 1) * extent_bytes_ + place_of_.size() * record_bytes_ +
         live_.size() * (sizeof(uint16_t) + sizeof(State) + sizeof(uint32_t));
}

void RowLog::Grow(uint64_t rows) {
  const uint64_t records = rows + rows / 3;
  const uint64_t extents = (records + extent_records_ - 1) / extent_records_ + kSpareExtents;
  const auto before = static_cast<uint32_t>(live_.size());
  if (extents <= before) return;
  DSLIDE_CHECK(extents * extent_records_ < kNone);
  file_->Grow(extents * extent_bytes_);
  live_.resize(extents);
  state_.resize(extents, State::kFree);
  for (auto e = static_cast<uint32_t>(extents); e > before; --e) free_.push_back(e - 1);
}

uint32_t RowLog::Store(uint32_t row, uint8_t** record) {
  if (IsOpenFull()) {
    while (!cleaning_ && free_.size() <= kReserve) Clean();
    if (IsOpenFull()) OpenExtent();  // cleaning may have opened one
  }
  const Writer& open = writers_[open_];
  RowsOf(open.data)[open_count_] = row;
  *record = open.data + open_count_ * record_bytes_;
  ++live_[open.extent];
  return open.extent * extent_records_ + open_count_++ + 1;
}

// Writes the extent that is full, and opens another.
void RowLog::OpenExtent() {
  if (open_ != kNone) {
    const Writer& full = writers_[open_];
    file_->Add({open_, true, full.data, extent_bytes_, full.extent * extent_bytes_});
    file_->Submit();
  }
  const auto unused = [](const Writer& writer) { return writer.extent == kNone; };
  auto next = std::ranges::find_if(writers_, unused);
  for (; next == writers_.end(); next = std::ranges::find_if(writers_, unused)) Await(true);
  DSLIDE_CHECK(!free_.empty());
  next->extent = free_.back();
  free_.pop_back();
  state_[next->extent] = State::kWriting;
  open_ = static_cast<uint32_t>(next - writers_.begin());
  open_count_ = 0;
  if (!cleaning_ && cleaned_ == kNone && free_.size() <= kCleanAhead) BeginCleaning();
}

void RowLog::Drop(uint32_t slot) {
  const uint32_t extent = ExtentOf(slot);
  DSLIDE_CHECK(live_[extent] > 0);
  --live_[extent];
  FreeIfEmpty(extent);
}

void RowLog::FreeIfEmpty(uint32_t extent) {
  if (live_[extent] > 0 || state_[extent] != State::kFull) return;
  state_[extent] = State::kFree;
  free_.push_back(extent);
}

uint32_t RowLog::Emptiest() {
  uint32_t best = kNone;
  const auto extents = static_cast<uint32_t>(live_.size());
  for (uint32_t n = 0; n < extents && (n < kSearched || best == kNone); ++n) {
    if (++hand_ >= extents) hand_ = 0;
    if (state_[hand_] != State::kFull) continue;
    if (best == kNone || live_[hand_] < live_[best]) best = hand_;
  }
  return best;
}

void RowLog::BeginCleaning() {
  const uint32_t extent = Emptiest();
  if (extent == kNone) return;  // all are being written
  state_[extent] = State::kCleaning;
  cleaned_ = extent;
  clean_read_ = false;
  file_->Add({kCleaner, false, cleaner_, extent_bytes_, extent * extent_bytes_});
  file_->Submit();
}

void RowLog::Clean() {
  if (cleaned_ == kNone) BeginCleaning();
  if (cleaned_ == kNone) return Await(true);
  while (!clean_read_) Await(true);
  cleaning_ = true;
  const uint32_t* rows = RowsOf(cleaner_);
  for (uint32_t r = 0; r < extent_records_ && live_[cleaned_] > 0; ++r) {
    owner_->Take(rows[r], cleaned_ * extent_records_ + r + 1, cleaner_ + r * record_bytes_);
  }
  DSLIDE_CHECK(live_[cleaned_] == 0);
  cleaning_ = false;
  state_[cleaned_] = State::kFull;
  FreeIfEmpty(std::exchange(cleaned_, kNone));
}

const uint8_t* RowLog::InMemory(uint32_t slot) const {
  const uint32_t extent = ExtentOf(slot);
  if (state_[extent] != State::kWriting) return nullptr;
  const auto writer =
      std::ranges::find_if(writers_, [&](const Writer& w) { return w.extent == extent; });
  return writer->data + (slot - 1) % extent_records_ * record_bytes_;
}

void RowLog::Read(uint32_t slot, uint32_t place) {
  waiting_.push_back({slot, place});
  if (!free_reads_.empty()) BeginReads();
}

void RowLog::BeginReads() {
  while (!waiting_.empty() && !free_reads_.empty()) {
    const auto [slot, place] = waiting_.front();
    waiting_.pop_front();
    const uint32_t buffer = free_reads_.back();
    free_reads_.pop_back();
    place_of_[buffer] = place;
    file_->Add({kFirstRead + buffer, false, ReadBuffer(buffer), record_bytes_, OffsetOf(slot)});
  }
}

void RowLog::Scan(uint32_t slot, uint32_t count, uint8_t* to) {
  while (free_scans_.empty()) Await(true);
  const uint32_t index = free_scans_.back();
  free_scans_.pop_back();
  file_->Add({index, false, to, count * record_bytes_, OffsetOf(slot)});
}

void RowLog::AwaitScans() {
  while (free_scans_.size() < kScans) Await(true);
}

void RowLog::Await(bool wait) {
  for (const uint32_t index : file_->Await(wait)) {
    if (index >= kFirstRead) {
      const uint32_t buffer = index - kFirstRead;
      owner_->Arrive(place_of_[buffer], ReadBuffer(buffer));
      free_reads_.push_back(buffer);
    } else if (index >= kFirstScan) {
      free_scans_.push_back(index);
    } else if (index == kCleaner) {
      clean_read_ = true;
    } else {
      const uint32_t extent = std::exchange(writers_[index].extent, kNone);
      state_[extent] = State::kFull;
      FreeIfEmpty(extent);
    }
  }
  BeginReads();
  file_->Submit();
}

void RowLog::CheckInvariants(uint64_t stored) const {
  uint64_t live = 0, free = 0;
  for (size_t e = 0; e < live_.size(); ++e) {
    live += live_[e];
    free += state_[e] == State::kFree;
    DSLIDE_CHECK(live_[e] > 0 || state_[e] != State::kFull);
    DSLIDE_CHECK(live_[e] == 0 || state_[e] != State::kFree);
    DSLIDE_CHECK(live_[e] <= extent_records_);
  }
  DSLIDE_CHECK(live == stored && free == free_.size());
}

}  // namespace dslide
