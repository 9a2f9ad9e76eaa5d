// The file of a segment of a stream: where it lies in the stream, and how the vocabulary comes
// about that is in force while it is trained (schema/vocabulary.fbs). From it a scheduler that
// starts again, or a run that goes back to a checkpoint, goes on with the same samples, features
// and labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/text/open_vocabulary.h"
#include "common/text/records/record.h"
#include "common/wire/messages.h"

namespace dslide {

struct StoredSegment {
  uint32_t number = 0;  // from 1; 0: the stream has not begun
  RecordFormat format = RecordFormat::kJsonLines;
  uint64_t begin = 0;  // bytes of the stream
  uint64_t end = 0;
  uint64_t lines = 0;                // of the stream, up to `end`
  uint32_t samples = 0;              // of the segment
  ModelShape shape = {};             // of the model while the segment is trained
  uint64_t checksum = 0;             // of the preprocessor's file
  OpenVocabulary::Rules rules = {};  // by which names were taken up
  // None: it is that of the segment before, after the lines of this one (SegmentShelf).
  std::optional<OpenVocabulary::State> vocabulary = {};
  bool has_vocabulary = false;  // in the file
};

std::string SegmentName(uint32_t number);
// The number in the name of a file; 0: it is no segment.
uint32_t SegmentNumberOf(const std::string& name);
// Removes the files of segments before `number`.
void RemoveSegments(const std::string& directory, uint32_t number);

// Returns the bytes of the file.
Result<uint64_t> WriteSegment(const std::string& directory, const StoredSegment& segment);
// Errors (kBadInput) name the file. `with_vocabulary`: read it if the file has it.
Result<StoredSegment> ReadSegment(const std::string& directory, uint32_t number,
                                  bool with_vocabulary = false);

}  // namespace dslide
