// The features and labels of a stream of records, which come and go while a model is trained on it.
//
// The stream is cut into segments. A name is taken up (gets an id) with the first segment up to
// which `admit_count` samples have it; until then it is a candidate. It is forgotten when
// `expire_segments` segments did not have it. Its id is then free, and goes to a name that is taken
// up in a later segment: memory is bounded by what is alive. Ids depend on the segments alone, so
// the same segments give the same ids whatever happens in between.
//
// A feature's weight is its idf (vectorizer.h) by counts that fall with time: what was long ago
// counts less. It changes from segment to segment.
//
// Memory is bounded whatever comes. Where OpenVocabulary::Limit leaves no room, names wait as
// candidates until others are forgotten. Candidates are bounded by kMostCandidates and
// kMostCandidateBytes; beyond, those that were seen longest ago go, the rarer ones first. A label
// of more than kLongestLabel bytes is none, and of a feature's name so much is kept as
// kLongestName says: the hash is what counts.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/config/config.h"
#include "common/text/preprocessor.h"
#include "common/text/records/record.h"
#include "common/text/terms.h"

namespace dslide {

// Names by position, as they are stored: of ids, or of candidates in the order of their hashes.
struct StoredNames {
  std::vector<uint64_t> hashes;
  std::vector<uint8_t> blocks;  // TermBlock; of labels 0
  std::vector<float> counts;
  std::vector<uint32_t> seen;      // the last segment with the name
  std::vector<std::string> names;  // empty: the id is free
  bool operator==(const StoredNames&) const = default;
};

// Names with ids, and candidates. A name is known by its hash.
class OpenNames {
 public:
  static constexpr size_t kMostCandidates = size_t{1} << 20;
  static constexpr size_t kMostCandidateBytes = size_t{128} << 20;  // of their names
  static constexpr size_t kMostNameBytes = size_t{256} << 20;       // of names with ids

  struct Rules {
    float admit_count = 1;
    uint32_t expire_segments = 0;  // 0: never
    float most_count = 0;          // names of more samples are not taken up; 0: all are
    size_t most = 0;               // ids in use at once; 0: any number
    size_t most_new_ids = std::numeric_limits<size_t>::max();  // that no name has had before
  };
  struct Change {
    uint32_t taken_up = 0;
    uint32_t kept_out = 0;           // with enough samples, but beyond the limits
    std::vector<uint32_t> recycled;  // ids among taken_up that another name had before; ascending
    std::vector<uint32_t> removed;   // ids of names that are forgotten; ascending
  };

  OpenNames() = default;
  OpenNames(StoredNames known, const StoredNames& candidates);
  StoredNames known() const { return known_; }
  StoredNames Candidates() const;

  // A sample of the segment has the name. make_name() gives the name of one that is new.
  template <typename MakeName>
  void Note(uint64_t hash, uint8_t block, uint32_t segment, const MakeName& make_name) {
    if (const auto id = ids_.find(hash); id != ids_.end()) {
      known_.counts[id->second] += 1;
      known_.seen[id->second] = segment;
      return;
    }
    const auto [found, is_new] = candidates_.try_emplace(hash);
    if (is_new) {
      found->second.name = make_name();
      candidate_bytes_ += found->second.name.size();
    }
    if (found->second.seen != segment) touched_.push_back(hash);
    found->second.block = block;
    found->second.count += 1;
    found->second.seen = segment;
  }
  // All samples of the segment were noted.
  Change End(uint32_t segment, const Rules& rules);
  // Counts fall by this factor; those of candidates not below `enough`, with which they get ids.
  void Fade(float factor, float enough);

  // One past the highest id, at least 1.
  uint32_t size() const { return static_cast<uint32_t>(known_.names.size()); }
  uint32_t in_use() const { return static_cast<uint32_t>(ids_.size()); }
  const StoredNames& stored() const { return known_; }
  size_t candidates() const { return candidates_.size(); }

 private:
  struct Candidate {
    std::string name;
    float count = 0;
    uint32_t seen = 0;
    uint8_t block = 0;
  };
  uint32_t GiveId(uint64_t hash, Candidate candidate, Change* change);
  void Admit(const Rules& rules, Change* change);
  void Expire(uint32_t segment, uint32_t expire_segments, Change* change);
  void ForgetCandidates(uint32_t segment, uint32_t expire_segments);
  size_t RoomFor(std::span<const std::pair<uint64_t, const Candidate*>> admitted,
                 const Rules& rules) const;

  StoredNames known_;                           // by id
  size_t name_bytes_ = 0;                       // of names in known_
  std::unordered_map<uint64_t, uint32_t> ids_;  // by hash
  std::vector<uint32_t> free_;                  // descending
  std::unordered_map<uint64_t, Candidate> candidates_;
  size_t candidate_bytes_ = 0;     // of their names
  std::vector<uint64_t> touched_;  // candidates that the segment in progress has
};

class OpenVocabulary {
 public:
  static constexpr size_t kLongestLabel = 1024;
  static constexpr size_t kLongestName = 256;
  static constexpr size_t kMostIds = size_t{1} << 24;  // of features and labels together

  // What ids may take. Features have at most seven eighths of it, and so have labels: none of them
  // keeps the others out.
  struct Limit {
    uint64_t bytes = std::numeric_limits<uint64_t>::max();
    uint64_t feature_bytes = 1;  // of an id, at least 1
    uint64_t label_bytes = 1;
    bool operator==(const Limit&) const = default;
  };
  struct Rules {
    uint32_t admit_count = 2;
    uint32_t expire_segments = 0;
    Limit limit = {};
    bool fades_candidates = true;  // counts of candidates fall too
    bool operator==(const Rules&) const = default;
  };
  // What a segment has changed.
  struct Change {
    OpenNames::Change features;
    OpenNames::Change labels;
  };
  // All that the next segments depend on.
  struct State {
    uint32_t segment = 0;  // taken so far
    double counted = 0;    // samples that counts are of
    StoredNames features, new_features, labels, new_labels;
    bool operator==(const State&) const = default;
  };

  // REQUIRES text.format = records and no text.hash_bits.
  explicit OpenVocabulary(const TextConfig& config) : OpenVocabulary(config, State()) {}
  OpenVocabulary(const TextConfig& config, State state);
  State Save() const;

  // Takes the next segment. In the first one every name is taken up if otherwise none were.
  Change Take(std::span<const Record> records, const Rules& rules);

  const TextConfig& config() const { return config_; }
  uint32_t segment() const { return segment_; }
  const OpenNames& features() const { return features_; }
  const OpenNames& labels() const { return labels_; }
  // By which the samples of this segment become numbers. Ids that are free have no name.
  Preprocessor MakePreprocessor() const;

 private:
  void Count(const Record& record);
  size_t NewIds(const Limit& limit, const OpenNames& of, uint64_t bytes_of_id) const;

  TextConfig config_;
  TermExtractor extractor_;
  uint32_t segment_;
  double counted_;
  OpenNames features_;
  OpenNames labels_;
  std::vector<uint32_t> order_;  // scratch: of a sample's terms, by hash
};

}  // namespace dslide
