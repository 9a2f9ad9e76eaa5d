#include "server/rows/row_tier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

// Simulated with Zipf's law, a fifth of draws uniform and room for a fifth of the rows: 8, 16 and
// 32 candidates miss 45.3, 45.0 and 44.9 % (the best set of rows: 41.7 %), and with periods of 8,
// 16 and 64 16 candidates miss 45.9, 45.2 and 44.3 %. Shorter periods follow changes.
constexpr uint32_t kCandidates = 16;      // places of which one is the victim
constexpr uint32_t kFadePeriod = 32;      // touches for each place until counts are halved
constexpr uint32_t kInFlight = 1u << 16;  // touches until the gradients of a batch have come
constexpr uint32_t kMostProtected = 1u << 30;
constexpr size_t kScanBytes = size_t{1} << 20;
constexpr uint32_t kNear = 256;  // rows ahead that count as in order

}  // namespace

RowTier::RowTier(std::unique_ptr<TierFile> file, std::vector<Part> parts, uint32_t places)
    : file_(std::move(file)),
      parts_(std::move(parts)),
      places_(places),
      protected_(std::min(places / 4, kInFlight)),
      row_(places),
      touched_(places),
      flags_(places),
      in_buffer_(file_->buffers()),
      scan_rows_(static_cast<uint32_t>(std::max<size_t>(1, kScanBytes / file_->record_bytes()))) {
  DSLIDE_CHECK(places >= kLeastPlaces);
  for (const Part& part : parts_) payload_ += part.bytes;
  DSLIDE_CHECK(payload_ <= file_->record_bytes());
  peeked_.resize(payload_);
}

uint64_t RowTier::MemoryBytes() const {
  const uint64_t buffers = file_->buffers() + (scan_ ? scan_rows_ : 0) + (put_ ? scan_rows_ : 0);
  return buffers * file_->record_bytes() + kRowBytes * rows_ + kPlaceBytes * places_;
}

void RowTier::Grow(uint32_t rows) {
  DSLIDE_CHECK(rows >= rows_);
  state_.Grow(rows);
  count_.Grow(rows);
  file_->Grow(rows);
  rows_ = rows;
}

void RowTier::Adopt(uint32_t rows) {
  DSLIDE_CHECK(rows_ == 0 && rows <= places_);
  Grow(rows);
  for (uint32_t row = 0; row < rows; ++row) {
    state_[row] = kFirstPlace + row;
    row_[row] = row;
    flags_[row] = kChanged;
    touched_[row] = now_ - kMostProtected;
  }
  used_ = rows;
}

void RowTier::Reset(uint32_t begin, uint32_t end, bool drawn) {
  FlushPut();
  while (file_->in_flight() > 0) TakeDone(true);
  for (uint32_t row = begin; row < end; ++row) {
    if (const uint32_t place = Find(row); place != kNowhere) {
      row_[place] = kNowhere;
      flags_[place] = 0;
      free_.push_back(place);
      ++moves_;
    }
    state_[row] = drawn ? kDrawn : kZero;
    count_[row] = 0;
  }
  scan_end_ = scan_begin_;
}

void RowTier::CopyIn(uint32_t place, const uint8_t* record) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    std::memcpy(At(p, place), record, parts_[p].bytes);
    record += parts_[p].bytes;
  }
}

void RowTier::CopyOut(uint32_t place, uint8_t* record) const {
  for (size_t p = 0; p < parts_.size(); ++p) {
    std::memcpy(record, At(p, place), parts_[p].bytes);
    record += parts_[p].bytes;
  }
}

// Unless the row was touched since then.
void RowTier::Touch(uint32_t row, uint32_t since, bool counts) {
  const uint32_t place = state_[row] - kFirstPlace;
  if (touched_[place] - since < now_ - since) return;
  touched_[place] = now_++;
  if (!counts) return;
  if (count_[row] < 255) ++count_[row];
  ++figures_.rows;
  figures_.misses += (flags_[place] & kWasRead) != 0;
  flags_[place] &= static_cast<uint8_t>(~kWasRead);
}

// Halves the counts of some rows: all of them while kFadePeriod * places_ rows are touched.
void RowTier::Fade(uint32_t touches) {
  const uint64_t share = uint64_t{touches} * rows_ / (uint64_t{kFadePeriod} * places_) + 1;
  for (uint32_t n = 0; n < std::min<uint64_t>(share, rows_); ++n) {
    count_[fading_] >>= 1;
    if (++fading_ == rows_) fading_ = 0;
  }
}

void RowTier::Request(std::span<const uint32_t> rows, bool counts, const RowSource& source) {
  rows = rows.first(std::min<size_t>(rows.size(), places_ / 2));
  const uint32_t since = now_;
  if (file_->in_flight() > 0) TakeDone(false);  // what is on its way cannot be a victim
  // Those that are here must not be the victims of the others.
  for (const uint32_t row : rows) {
    if (state_[row] >= kFirstPlace) Touch(row, since, counts);
  }
  for (const uint32_t row : rows) {
    if (state_[row] >= kFirstPlace) continue;
    Admit(row, source);
    Touch(row, since, counts);
  }
  file_->Submit();
  if (counts) Fade(now_ - since);
}

uint32_t RowTier::HoldAbsent(uint32_t row, const RowSource& source) {
  if (state_[row] < kFirstPlace) {
    const uint32_t since = now_;
    Admit(row, source);
    Touch(row, since, true);
    Fade(1);
  }
  const uint32_t place = state_[row] - kFirstPlace;
  while ((flags_[place] & kArriving) != 0) TakeDone(true);
  return place;
}

// Gives an absent row a place, and has it come there.
void RowTier::Admit(uint32_t row, const RowSource& source) {
  if (put_count_ > 0) FlushPut();
  const uint32_t place = FreePlace();  // may end transfers, of this row too
  const uint32_t state = state_[row];
  uint8_t flags = 0;
  if (state == kStored) {
    const uint32_t buffer = TakeBuffer();
    in_buffer_[buffer] = {row, place};
    file_->Read(buffer, row);
    flags = kArriving | kOfFile | kWasRead;
    ++figures_.reads;
  } else if (state == kWriting) {
    CopyIn(place, file_->Buffer(WriteOf(row)));
    flags = kOfFile | kOverwrite;
  } else {
    if (state == kDrawn) {
      source.DrawRow(row, peeked_.data());
      flags = kWasDrawn;
    } else {
      std::ranges::fill(peeked_, uint8_t{0});
    }
    CopyIn(place, peeked_.data());
    ++figures_.drawn;
  }
  flags_[place] = flags;
  row_[place] = row;
  // As if it was touched before all others.
  touched_[place] = now_ - kMostProtected;
  state_[row] = kFirstPlace + place;
}

uint32_t RowTier::FreePlace() {
  ++moves_;
  if (!free_.empty()) {
    const uint32_t place = free_.back();
    free_.pop_back();
    return place;
  }
  if (used_ < places_) return used_++;
  const uint32_t place = Victim();
  Evict(place);
  return place;
}

// The least touched of the next kCandidates places whose rows may go. If none of all may, those
// that were touched a short time ago.
uint32_t RowTier::Victim() {
  for (const bool spares : {true, false}) {
    uint32_t best = kNowhere, found = 0;
    for (uint32_t n = 0; n < places_ && found < kCandidates; ++n) {
      const uint32_t place = hand_;
      if (++hand_ == places_) hand_ = 0;
      if (row_[place] == kNowhere || (flags_[place] & kArriving) != 0) continue;
      if (spares && Protected(place)) continue;
      ++found;
      if (best == kNowhere || count_[row_[place]] < count_[row_[best]]) best = place;
    }
    if (best != kNowhere) return best;
  }
  // All are on their way. Some are here now, or some of the buffers were too few.
  TakeDone(true);
  return Victim();
}

void RowTier::Evict(uint32_t place) {
  const uint32_t row = row_[place];
  const uint8_t flags = flags_[place];
  if ((flags & kOverwrite) != 0) AwaitWrites(row);
  row_[place] = kNowhere;
  flags_[place] = 0;
  if ((flags & kChanged) == 0) {
    state_[row] = (flags & kOfFile) != 0 ? kStored : (flags & kWasDrawn) != 0 ? kDrawn : kZero;
    return;
  }
  const uint32_t buffer = TakeBuffer();
  uint8_t* record = file_->Buffer(buffer);
  CopyOut(place, record);
  FollowScan(row, record);
  in_buffer_[buffer] = {row, kNowhere};
  state_[row] = kWriting;
  ++writes_in_flight_;
  ++figures_.writes;
  file_->Write(buffer, row);
}

uint32_t RowTier::TakeBuffer() {
  while (true) {
    const uint32_t buffer = file_->TakeBuffer();
    if (buffer != TierFile::kNone) return buffer;
    TakeDone(true);
  }
}

// Ends transfers that are done; with `wait` at least one.
void RowTier::TakeDone(bool wait) {
  for (const uint32_t buffer : file_->Await(wait)) {
    const InBuffer done = std::exchange(in_buffer_[buffer], InBuffer());
    if (done.place != kNowhere) {
      CopyIn(done.place, file_->Buffer(buffer));
      flags_[done.place] &= static_cast<uint8_t>(~kArriving);
    } else {
      --writes_in_flight_;
      if (state_[done.row] == kWriting) state_[done.row] = kStored;
    }
    file_->GiveBack(buffer);
  }
}

// The buffer of the write of a row in flight; kNowhere: there is none.
uint32_t RowTier::WriteOf(uint32_t row) const {
  if (writes_in_flight_ == 0) return kNowhere;
  for (uint32_t b = 0; b < in_buffer_.size(); ++b) {
    if (in_buffer_[b].row == row && in_buffer_[b].place == kNowhere) return b;
  }
  return kNowhere;
}

// Two writes of a row must not be in flight: the older could end last.
void RowTier::AwaitWrites(uint32_t row) {
  while (WriteOf(row) != kNowhere) TakeDone(true);
}

const uint8_t* RowTier::Peek(uint32_t row, const RowSource& source) {
  if (put_count_ > 0) FlushPut();
  switch (state_[row]) {
    case kZero:
      std::ranges::fill(peeked_, uint8_t{0});
      return peeked_.data();
    case kDrawn:
      source.DrawRow(row, peeked_.data());
      return peeked_.data();
    case kWriting:
      return file_->Buffer(WriteOf(row));
    case kStored:
      if (row < scan_begin_ || row >= scan_end_) ReadScan(row);
      scan_last_ = row;
      return scan_.get() + size_t{row - scan_begin_} * file_->record_bytes();
    default:
      break;
  }
  const uint32_t place = Find(row);
  while ((flags_[place] & kArriving) != 0) TakeDone(true);
  CopyOut(place, peeked_.data());
  return peeked_.data();
}

// Reads more at a time as long as rows come in order.
void RowTier::ReadScan(uint32_t row) {
  if (!scan_) scan_ = TierFile::Allocate(scan_rows_ * file_->record_bytes());
  const bool in_order = row > scan_last_ && row - scan_last_ <= kNear;
  scan_window_ = in_order ? std::min(2 * scan_window_, scan_rows_) : 1;
  scan_begin_ = row;
  scan_end_ = std::min(rows_, row + scan_window_);
  file_->ReadNow(scan_begin_, scan_end_ - scan_begin_, scan_.get());
  if (writes_in_flight_ == 0) return;
  for (uint32_t b = 0; b < in_buffer_.size(); ++b) {
    if (in_buffer_[b].row != kNoRow && in_buffer_[b].place == kNowhere) {
      FollowScan(in_buffer_[b].row, file_->Buffer(b));
    }
  }
}

// The file gets another record of the row than what was read ahead.
void RowTier::FollowScan(uint32_t row, const uint8_t* record) {
  if (row < scan_begin_ || row >= scan_end_) return;
  std::memcpy(scan_.get() + size_t{row - scan_begin_} * file_->record_bytes(), record, payload_);
}

void RowTier::Put(uint32_t row, const uint8_t* record) {
  uint32_t place = Find(row);
  if (place == kNowhere && used_ < places_) {  // as many as there is room for
    if (state_[row] == kWriting) AwaitWrites(row);
    place = used_++;
    ++moves_;
    row_[place] = row;
    touched_[place] = now_ - kMostProtected;
    flags_[place] = 0;
    state_[row] = kFirstPlace + place;
  }
  if (place != kNowhere) {
    while ((flags_[place] & kArriving) != 0) TakeDone(true);
    CopyIn(place, record);
    flags_[place] |= kChanged;
    return;
  }
  AwaitWrites(row);
  if (!put_) put_ = TierFile::Allocate(scan_rows_ * file_->record_bytes());
  if (put_count_ > 0 && (row != put_begin_ + put_count_ || put_count_ == scan_rows_)) FlushPut();
  if (put_count_ == 0) put_begin_ = row;
  std::memcpy(put_.get() + size_t{put_count_} * file_->record_bytes(), record, payload_);
  FollowScan(row, record);
  ++put_count_;
  state_[row] = kStored;
}

void RowTier::FlushPut() {
  if (put_count_ == 0) return;
  file_->WriteNow(put_begin_, std::exchange(put_count_, 0), put_.get());
}

void RowTier::CheckInvariants() const {
  uint32_t here = 0;
  for (uint32_t row = 0; row < rows_; ++row) {
    const uint32_t place = Find(row);
    DSLIDE_CHECK(place == kNowhere || (place < used_ && row_[place] == row));
    DSLIDE_CHECK(state_[row] != kWriting || WriteOf(row) != kNowhere);
    here += place != kNowhere;
  }
  DSLIDE_CHECK(here + free_.size() == used_);
}

}  // namespace dslide
