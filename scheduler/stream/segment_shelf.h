// The segments of a stream that lie on the disk, each with its vocabulary.
//
// Vocabularies are large and segments many, so not every file has one. It is written with the first
// segment, and again when the stream has brought as many bytes since as it takes on the disk, each
// segment counting for a 64th of it at least. For the others it is made again: from the last one
// before, by the lines of the segments since, which the spool has. So all vocabularies together
// take some more than the bytes of the stream that are kept; and to make one again takes no more
// than 64 segments, and no more than so many bytes. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/text/open_vocabulary.h"
#include "common/text/preprocessor.h"
#include "scheduler/stream/spool.h"
#include "scheduler/stream/stored_segment.h"

namespace dslide {

class SegmentShelf {
 public:
  SegmentShelf(std::string directory, const TextConfig& text)
      : directory_(std::move(directory)), text_(text) {}

  // The newest segment, `known` or one that was cut later, with its vocabulary: the next one
  // follows it. `known` = 0: there is none yet.
  Result<StoredSegment> Newest(uint32_t known, const Spool& spool);
  // Whether what was made again is what was trained. The error (kBadInput) names the segment's
  // file.
  Status CheckSame(const StoredSegment& segment, const Preprocessor* preprocessor) const;
  // Without its vocabulary.
  Result<StoredSegment> Read(uint32_t number) const { return ReadSegment(directory_, number); }
  // The vocabulary with which a segment is trained. Valid until the next call of any function.
  // Errors (kBadInput) name the file that it cannot be made of.
  Result<const OpenVocabulary*> VocabularyOf(uint32_t number, const Spool& spool);
  // The next segment, whose vocabulary this is.
  Status Add(StoredSegment segment, const OpenVocabulary& vocabulary);
  // Nobody goes back before `oldest`: removes what it does not need, also of the spool.
  Status Forget(uint32_t oldest, Spool* spool);

 private:
  // What must be known of a file again and again.
  struct Place {
    uint64_t begin = 0;  // bytes of the stream
    uint64_t end = 0;
    bool has_vocabulary = false;
  };
  Result<Place> PlaceOf(uint32_t number);
  // The last segment up to this one whose file has a vocabulary.
  Result<uint32_t> BaseOf(uint32_t number);
  Status TakeNext(const Spool& spool);
  // Of a segment that has these bytes of the stream and no vocabulary.
  uint64_t Weight(uint64_t bytes) const { return bytes + vocabulary_bytes_ / kMostBetween; }

  static constexpr uint64_t kMostBetween = 64;  // segments between two vocabularies

  std::string directory_;
  TextConfig text_;
  std::map<uint32_t, Place> places_;     // those that were asked for
  uint64_t since_ = 0;                   // weights of segments since the last vocabulary
  uint64_t vocabulary_bytes_ = 0;        // of the file of that one; 0: there is none
  std::optional<OpenVocabulary> again_;  // the one that was made last
};

}  // namespace dslide
