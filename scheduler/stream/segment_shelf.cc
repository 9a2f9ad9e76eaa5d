#include "scheduler/stream/segment_shelf.h"

#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "common/checkpoint/stored_preprocessor.h"
#include "scheduler/stream/segment_maker.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

std::string PathIn(const std::string& directory, uint32_t number) {
  return directory + "/" + SegmentName(number);
}

Error Differs(const std::string& path) {
  return BadInput(fmt::format(
      "{}: the lines of the stream do not give the labels and words that it had; continue the run "
      "with the versions of dslide, of ICU and of the C++ library that wrote it, or begin another "
      "one",
      path));
}

}  // namespace

Result<StoredSegment> SegmentShelf::Newest(uint32_t known, const Spool& spool) {
  if (known == 0) return StoredSegment();
  uint32_t newest = known;
  std::error_code error;
  while (fs::exists(PathIn(directory_, newest + 1), error)) {
    const Result<Place> last = PlaceOf(newest), next = PlaceOf(newest + 1);
    DSLIDE_RETURN_IF_ERROR(last);
    DSLIDE_RETURN_IF_ERROR(next);
    if (next->begin < last->end) break;  // of an earlier start, from which nothing counts
    ++newest;
  }
  Result<StoredSegment> segment = Read(newest);
  DSLIDE_RETURN_IF_ERROR(segment);
  if (segment->end > spool.end()) return spool.Gone(spool.end(), segment->end);
  const Result<uint32_t> base = BaseOf(newest);
  DSLIDE_RETURN_IF_ERROR(base);
  const Result<const OpenVocabulary*> vocabulary = VocabularyOf(newest, spool);
  DSLIDE_RETURN_IF_ERROR(vocabulary);
  const Preprocessor preprocessor = (*vocabulary)->MakePreprocessor();
  DSLIDE_RETURN_IF_ERROR(CheckSame(*segment, &preprocessor));
  segment->vocabulary = (*vocabulary)->Save();
  again_.reset();
  vocabulary_bytes_ = fs::file_size(PathIn(directory_, *base), error);
  since_ = 0;
  for (uint32_t number = *base + 1; number <= newest; ++number) {
    since_ += Weight(places_.at(number).end - places_.at(number).begin);
  }
  return segment;
}

Result<SegmentShelf::Place> SegmentShelf::PlaceOf(uint32_t number) {
  const auto found = places_.find(number);
  if (found != places_.end()) return found->second;
  const Result<StoredSegment> segment = Read(number);
  DSLIDE_RETURN_IF_ERROR(segment);
  const Place place{segment->begin, segment->end, segment->has_vocabulary};
  places_[number] = place;
  return place;
}

Result<uint32_t> SegmentShelf::BaseOf(uint32_t number) {
  while (true) {
    const Result<Place> place = PlaceOf(number);
    DSLIDE_RETURN_IF_ERROR(place);
    if (place->has_vocabulary) return number;
    --number;  // the file of segment 0, which there is not, is an error
  }
}

Result<const OpenVocabulary*> SegmentShelf::VocabularyOf(uint32_t number, const Spool& spool) {
  const Result<uint32_t> base = BaseOf(number);
  DSLIDE_RETURN_IF_ERROR(base);
  if (!again_ || again_->segment() < *base || again_->segment() > number) {
    Result<StoredSegment> segment = ReadSegment(directory_, *base, true);
    DSLIDE_RETURN_IF_ERROR(segment);
    again_.emplace(text_, *std::move(segment->vocabulary));
  }
  while (again_->segment() < number) {
    if (const Status taken = TakeNext(spool); !taken.ok()) {
      again_.reset();
      return taken.error();
    }
  }
  return &*again_;
}

Status SegmentShelf::TakeNext(const Spool& spool) {
  const Result<StoredSegment> segment = Read(again_->segment() + 1);
  DSLIDE_RETURN_IF_ERROR(segment);
  const Result<std::string> bytes = spool.Read(segment->begin, segment->end);
  DSLIDE_RETURN_IF_ERROR(bytes);
  if (SegmentMaker::TakeAgain(*segment, *bytes, &*again_)) return {};
  return Differs(PathIn(directory_, segment->number));
}

Status SegmentShelf::CheckSame(const StoredSegment& segment,
                               const Preprocessor* preprocessor) const {
  if (ChecksumOf(preprocessor) == segment.checksum) return {};
  return Differs(PathIn(directory_, segment.number));
}

Status SegmentShelf::Add(StoredSegment segment, const OpenVocabulary& vocabulary) {
  again_.reset();
  const auto since = since_ + Weight(segment.end - segment.begin);
  const bool whole = vocabulary_bytes_ == 0 || since >= vocabulary_bytes_;
  segment.vocabulary.reset();
  if (whole) segment.vocabulary = vocabulary.Save();
  const Result<uint64_t> bytes = WriteSegment(directory_, segment);
  DSLIDE_RETURN_IF_ERROR(bytes);
  places_[segment.number] = {segment.begin, segment.end, whole};
  since_ = whole ? 0 : since;
  if (whole) vocabulary_bytes_ = *bytes;
  return {};
}

Status SegmentShelf::Forget(uint32_t oldest, Spool* spool) {
  const Result<uint32_t> base = BaseOf(oldest);
  DSLIDE_RETURN_IF_ERROR(base);
  const Place& place = places_.at(*base);
  spool->Forget(*base == oldest ? place.begin : place.end);
  places_.erase(places_.begin(), places_.lower_bound(*base));
  RemoveSegments(directory_, *base);
  return {};
}

}  // namespace dslide
