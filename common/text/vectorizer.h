// Texts as sparse vectors: tf-idf over a vocabulary of terms.
//
//   x_j = tf_j idf_j,   idf_j = 1 + ln((1 + n) / (1 + n_j))
//
// where tf_j is how often term j occurs in the sample and n_j of n training samples have it (Salton
// and Buckley: "Term-weighting approaches in automatic text retrieval", 1988, with the smoothed idf
// that scikit-learn has). A term that is not in the vocabulary is left out. The part of each block
// of terms (terms.h) is scaled to the block's length, then the whole to length 1.
//
// With text.hash_bits the terms' hashes are in the place of a vocabulary (hashed_terms.h). Terms of
// several blocks may then be one feature: each counts with its block, and their values are added.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/text/term_counts.h"
#include "common/text/terms.h"

namespace dslide {

// Immutable; any number of threads may use it.
class Vectorizer {
 public:
  // The parts of one, by feature id.
  struct Vocabulary {
    std::vector<uint64_t> hashes;  // of terms
    std::vector<float> weights;    // idf; 0: the id is free (open_vocabulary.h)
    std::vector<TermBlock> blocks;
    std::vector<std::string> names;  // for people
  };

  // REQUIRES config.hash_bits to be 0.
  Vectorizer(const TextConfig& config, Vocabulary vocabulary);
  // REQUIRES config.hash_bits > 0 and 2^hash_bits codes (hashed_terms.h).
  Vectorizer(const TextConfig& config, std::vector<uint8_t> codes);
  // The terms that `config` wants of those counted in `samples` samples, the most frequent first.
  // Terms of `known` are left out; null: none are.
  static Vocabulary Choose(const TextConfig& config, const TermCounts& counts, uint64_t samples,
                           const Vectorizer* known = nullptr);

  const TextConfig& config() const { return config_; }
  bool is_hashed() const { return config_.hash_bits > 0; }
  const Vocabulary& vocabulary() const { return vocabulary_; }  // empty: hashed
  const std::vector<uint8_t>& codes() const { return codes_; }  // empty: not hashed
  // Features, D.
  uint32_t size() const {
    return static_cast<uint32_t>(is_hashed() ? codes_.size() : vocabulary_.hashes.size());
  }
  bool Has(uint64_t term) const { return IdOf(term).has_value(); }

  // The feature id of a term; nullopt: it is left out.
  std::optional<uint32_t> IdOf(uint64_t term) const;

  // The vector of the sample whose terms the extractor has: ascending ids, and their values.
  void Transform(const TermExtractor& extractor, std::vector<uint32_t>* ids,
                 std::vector<float>* values) const;

 private:
  void TransformHashed(const TermExtractor& extractor, std::vector<uint32_t>* ids,
                       std::vector<float>* values) const;
  size_t BlockOf(uint32_t id) const { return static_cast<size_t>(vocabulary_.blocks[id]); }

  struct Place {
    uint64_t hash;
    uint32_t id;  // kFree: there is none
  };
  static constexpr uint32_t kFree = 0xffffffffu;

  TextConfig config_;
  Vocabulary vocabulary_;
  std::vector<uint8_t> codes_;
  std::vector<Place> places_;  // a power of two, by open addressing
};

}  // namespace dslide
