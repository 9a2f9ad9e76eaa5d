#include "server/rows/tier/row_tier.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
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
    : parts_(std::move(parts)),
      payload_(std::transform_reduce(parts_.begin(), parts_.end(), size_t{0}, std::plus(),
                                     [](const Part& part) { return part.bytes; })),
      places_(places),
      protected_(std::min(places / 4, kInFlight)),
      row_(places),
      touched_(places),
      flags_(places),
      peeked_(payload_),
      log_(std::move(file), payload_, this) {
  DSLIDE_CHECK(places >= kLeastPlaces);
  scan_rows_ = static_cast<uint32_t>(std::max<size_t>(1, kScanBytes / log_.record_bytes()));
}

uint64_t RowTier::MemoryBytes() const {
  const uint64_t scanned = scan_ ? scan_rows_ * log_.record_bytes() : 0;
  return log_.MemoryBytes() + scanned + kRowBytes * rows_ + kPlaceBytes * places_;
}

void RowTier::Grow(uint32_t rows) {
  DSLIDE_CHECK(rows >= rows_);
  state_.Grow(rows);
  slot_.Grow(rows);
  count_.Grow(rows);
  log_.Grow(rows);
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
  while (log_.in_flight() > 0) log_.Await(true);
  for (uint32_t row = begin; row < end; ++row) {
    DropStored(row);
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
  if (log_.in_flight() > 0) log_.Await(false);  // what is on its way cannot be a victim
  // Those that are here must not be the victims of the others.
  for (const uint32_t row : rows) {
    if (state_[row] >= kFirstPlace) Touch(row, since, counts);
  }
  for (const uint32_t row : rows) {
    if (state_[row] >= kFirstPlace) continue;
    Admit(row, source);
    Touch(row, since, counts);
  }
  log_.Submit();
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
  AwaitArrival(place);
  return place;
}

void RowTier::AwaitArrival(uint32_t place) {
  while ((flags_[place] & kArriving) != 0) log_.Await(true);
}

// Gives an absent row a place, and has it come there.
void RowTier::Admit(uint32_t row, const RowSource& source) {
  const uint32_t place = FreePlace();  // may move the row's record
  const uint32_t state = state_[row];
  uint8_t flags = 0;
  if (state == kStored) {
    if (const uint8_t* record = log_.InMemory(slot_[row])) {
      CopyIn(place, record);
    } else {
      log_.Read(slot_[row], place);
      flags = kArriving | kWasRead;
    }
  } else {
    if (state == kDrawn) {
      source.DrawRow(row, peeked_.data());
      flags = kWasDrawn;
    } else {
      std::ranges::fill(peeked_, uint8_t{0});
    }
    CopyIn(place, peeked_.data());
  }
  flags_[place] = flags;
  row_[place] = row;
  // As if it was touched before all others.
  touched_[place] = now_ - kMostProtected;
  state_[row] = kFirstPlace + place;
}

void RowTier::Arrive(uint32_t place, const uint8_t* record) {
  CopyIn(place, record);
  flags_[place] &= static_cast<uint8_t>(~kArriving);
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
  log_.Await(true);
  return Victim();
}

void RowTier::Evict(uint32_t place) {
  const uint32_t row = row_[place];
  if ((flags_[place] & kChanged) != 0) {
    uint8_t* record = Store(row);
    CopyOut(place, record);
    FollowScan(row, record);
    ++figures_.writes;
  }
  const bool stored = slot_[row] != RowLog::kNoSlot;
  state_[row] = stored ? kStored : (flags_[place] & kWasDrawn) != 0 ? kDrawn : kZero;
  row_[place] = kNowhere;
  flags_[place] = 0;
}

uint8_t* RowTier::Store(uint32_t row) {
  uint8_t* record = nullptr;
  slot_[row] = log_.Store(row, &record);
  return record;
}

void RowTier::DropStored(uint32_t row) {
  if (slot_[row] != RowLog::kNoSlot) log_.Drop(std::exchange(slot_[row], RowLog::kNoSlot));
}

// The slot is needed for others.
void RowTier::Take(uint32_t row, uint32_t slot, const uint8_t* record) {
  if (row >= rows_ || slot_[row] != slot) return;  // the row has another by now
  if (const uint32_t place = Find(row); place != kNowhere) {
    AwaitArrival(place);
    MarkChanged(place);  // it is stored when it goes
    return;
  }
  DropStored(row);
  std::memcpy(Store(row), record, payload_);
}

const uint8_t* RowTier::Peek(uint32_t row, const RowSource& source) {
  if (const uint32_t place = Find(row); place != kNowhere) {
    AwaitArrival(place);
    CopyOut(place, peeked_.data());
    return peeked_.data();
  }
  if (state_[row] == kStored) {
    if (const uint8_t* record = log_.InMemory(slot_[row])) return record;
    if (row < scan_begin_ || row >= scan_end_) ReadScan(row);
    scan_last_ = row;
    return scan_.get() + size_t{row - scan_begin_} * log_.record_bytes();
  }
  if (state_[row] == kDrawn) {
    source.DrawRow(row, peeked_.data());
  } else {
    std::ranges::fill(peeked_, uint8_t{0});
  }
  return peeked_.data();
}

// Reads more at a time as long as rows come in order. Slots that follow each other are one read:
// rows that were restored and have not been touched since lie in order. Rows in memory are read
// too: one that did not change may go without being stored again.
void RowTier::ReadScan(uint32_t row) {
  const size_t bytes = log_.record_bytes();
  if (!scan_) scan_ = TierFile::Allocate(scan_rows_ * bytes);
  const bool in_order = row > scan_last_ && row - scan_last_ <= kNear;
  scan_window_ = in_order ? std::min(2 * scan_window_, scan_rows_) : 1;
  scan_begin_ = scan_end_ = row;
  const uint32_t end = std::min(rows_, row + scan_window_);
  while (row < end) {
    const uint32_t first = row++;
    if (slot_[first] == RowLog::kNoSlot) continue;
    uint8_t* to = scan_.get() + size_t{first - scan_begin_} * bytes;
    if (const uint8_t* record = log_.InMemory(slot_[first])) {
      std::memcpy(to, record, payload_);
      continue;
    }
    while (row < end && log_.Adjacent(slot_[row - 1], slot_[row])) ++row;
    log_.Scan(slot_[first], row - first, to);
  }
  log_.AwaitScans();
  scan_end_ = end;
}

// The log gets another record of the row than what was read ahead.
void RowTier::FollowScan(uint32_t row, const uint8_t* record) {
  if (row < scan_begin_ || row >= scan_end_) return;
  std::memcpy(scan_.get() + size_t{row - scan_begin_} * log_.record_bytes(), record, payload_);
}

void RowTier::Put(uint32_t row, const uint8_t* record) {
  uint32_t place = Find(row);
  if (place == kNowhere && used_ < places_) {  // as many as there is room for
    place = used_++;
    ++moves_;
    row_[place] = row;
    touched_[place] = now_ - kMostProtected;
    flags_[place] = 0;
    state_[row] = kFirstPlace + place;
  }
  if (place != kNowhere) {
    AwaitArrival(place);
    CopyIn(place, record);
    MarkChanged(place);
    return;
  }
  DropStored(row);
  std::memcpy(Store(row), record, payload_);
  state_[row] = kStored;
  FollowScan(row, record);
}

void RowTier::CheckInvariants() const {
  uint64_t here = 0, stored = 0;
  for (uint32_t row = 0; row < rows_; ++row) {
    const uint32_t place = Find(row);
    DSLIDE_CHECK(place == kNowhere || (place < used_ && row_[place] == row));
    DSLIDE_CHECK(place == kNowhere || (flags_[place] & kChanged) == 0 ||
                 slot_[row] == RowLog::kNoSlot);
    DSLIDE_CHECK((state_[row] == kStored) == (place == kNowhere && slot_[row] != RowLog::kNoSlot));
    here += place != kNowhere;
    stored += slot_[row] != RowLog::kNoSlot;
  }
  DSLIDE_CHECK(here + free_.size() == used_);
  log_.CheckInvariants(stored);
}

}  // namespace dslide
