// Cuts segments out of a stream's bytes, and makes samples of them. Pure: it reads and writes
// nothing. A byte order mark at the stream's beginning is no part of its first line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/text/open_vocabulary.h"
#include "common/text/records/first_look.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/stream/stored_segment.h"

namespace dslide {

class SegmentMaker {
 public:
  // One sample in so many is of StreamSegment::unseen.
  static constexpr size_t kUnseenShare = 8;

  struct Made {
    StreamSegment segment;
    std::shared_ptr<const Preprocessor> preprocessor;
    std::vector<std::string> notes = {};  // of the first segment, for people: FirstLook's lines
  };

  // Goes on after `last`, which has its vocabulary; number 0: from the beginning. `limit`: what
  // labels and words may take.
  SegmentMaker(const TrainConfig& train, const TextConfig& text, StoredSegment last,
               const OpenVocabulary::Limit& limit = {});

  // The next bytes of the stream.
  void Add(std::string_view bytes);
  // Of those that are of no segment yet: whole lines, all bytes, those of the line without its end.
  uint64_t lines() const { return lines_; }
  size_t pending() const { return bytes_.size(); }
  size_t longest_open() const { return bytes_.size() - whole_; }

  // The last segment made: its number, where it ends in the stream, and all of it but the
  // vocabulary.
  uint32_t number() const { return last_.number; }
  uint64_t end() const { return last_.end; }
  const StoredSegment& stored() const { return last_; }
  const OpenVocabulary& vocabulary() const { return vocabulary_; }
  // Names of the last segment that had enough samples, but no room.
  uint32_t kept_out() const { return kept_out_; }
  Preprocessor MakePreprocessor() const { return vocabulary_.MakePreprocessor(); }

  // Makes the next segment from the waiting lines; nullopt: none of them is a record. Lines that
  // cannot be read are left out, however many there are: a stream has no end at which their share
  // would be known. `ended`: the last line may lack its line end. Errors: the stream's first line
  // has no known format, or no record of the first segment has a label.
  Result<std::optional<Made>> MakeNext(bool ended);
  // What a segment's line does not tell: lines that were left out although no segment was made of
  // the others. Empty: none since the last call.
  std::string TakeLeftOut() { return std::exchange(left_out_, ""); }

  // The segment as it was. `bytes`: of the stream, as `stored` says.
  static Made MakeAgain(const StoredSegment& stored, const OpenVocabulary& vocabulary,
                        std::string_view bytes);
  // `vocabulary` is that of the segment before; it becomes that of this one. False: the model's
  // sizes are not those that it had.
  [[nodiscard]] static bool TakeAgain(const StoredSegment& stored, std::string_view bytes,
                                      OpenVocabulary* vocabulary);

 private:
  struct Cut {
    std::vector<Record> records;
    size_t bytes = 0;
    uint64_t lines = 0;
    uint64_t bad = 0;       // lines that are no records
    std::string first_bad;  // what is wrong with the first of them
    FirstLook look;         // of the records
  };
  // Where bytes are in the stream: behind so many others, and lines.
  struct Place {
    uint64_t bytes = 0;
    uint64_t lines = 0;
  };
  static Cut Parse(const RecordRules& rules, const Place& place, std::string_view bytes,
                   size_t most, bool ended);
  static Made Encode(const std::vector<Record>& records,
                     std::shared_ptr<const Preprocessor> preprocessor);
  const TextConfig& config() const { return vocabulary_.config(); }
  Status FindFormat(bool ended);
  std::string LineOf(const Cut& cut, const OpenVocabulary::Change& change) const;

  static ModelShape ShapeAfter(const OpenVocabulary::Change& change,
                               const OpenVocabulary& vocabulary, size_t samples);

  TrainConfig train_;
  OpenVocabulary::Limit limit_;
  StoredSegment last_;
  OpenVocabulary vocabulary_;
  std::string bytes_;  // from last_.end on
  size_t whole_ = 0;   // of them, up to the end of the last whole line
  uint64_t lines_ = 0;
  bool has_format_;
  uint32_t kept_out_ = 0;
  std::string left_out_;
};

}  // namespace dslide
