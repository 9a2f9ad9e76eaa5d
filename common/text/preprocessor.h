// What turns a user's samples into numbers and a model's numbers into names: the vectoriser and the
// label names. Fitted on the training file, stored with the model (schema/preprocessor.fbs).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/data/dataset.h"
#include "common/text/records/record.h"
#include "common/text/tokens.h"
#include "common/text/vectorizer.h"
#include "common/text/vocabulary/vocabulary.h"

namespace dslide {

// The newest format of the file. Format 1 has no text.stem, text.chars and text.hash_bits. A file
// is of format 2 if it has one of them, and of format 3 if it has words or sessions (text.format),
// so that an earlier program refuses that one alone. A file of format 4 has a vocabulary.
constexpr uint32_t kPreprocessorFormat = 4;

// The error of a training file of which train.min_label_samples leaves no label.
Error NoLabelLeft(const std::string& path, uint32_t min_label_samples);

// The sample that a name of a label is: the name as title and text.
Record NameRecord(const std::string& name);

// Immutable; any number of threads may use it.
class Preprocessor {
 public:
  Preprocessor(Vectorizer vectorizer, std::vector<std::string> label_names);
  // Label i is concept i.
  Preprocessor(Vectorizer vectorizer, Vocabulary vocabulary);

  // Reads a file of records; the result's config() has its format. Memory is bounded except for
  // the names of labels; with text.hash_bits it is 4 bytes a feature. The result depends
  // on the file and the configuration, not on the number of threads. Labels have ids by falling
  // frequency; those of fewer than `min_label_samples` samples are left out. Errors are kBadInput
  // and name the file and the line, or the keys that exclude each other.
  //
  // With a `vocabulary` the labels are its concepts, and the file's labels are identifiers or names
  // of them. Those that it lacks are unknown; if it lacks all, that is an error. Its names count as
  // samples (NameRecord()).
  static Result<Preprocessor> Fit(const std::string& path, const TextConfig& config, size_t threads,
                                  uint32_t min_label_samples = 1,
                                  const Vocabulary* vocabulary = nullptr);

  // Returns a preprocessor that has the features and labels of this one, and new ones from a file.
  // REQUIRES records. Existing features and labels keep their ids, and features their weights. New
  // terms and labels follow by falling frequency. Terms are chosen by the rules of config(), as if
  // no other data existed; at most text.max_features are added. With text.hash_bits no feature is
  // added: the rules give weights to features that were left out, so that new terms count. The file
  // may have another format than the file of Fit(). Errors are those of Fit().
  Result<Preprocessor> Extend(const std::string& path, size_t threads,
                              uint32_t min_label_samples = 1, const DataFormat& format = {}) const;

  // The file's contents (schema/preprocessor.fbs). Errors of the inverse are kBadInput and name
  // `path`. A libstemmer that finds other stems than that of the model is an error.
  std::string ToBytes() const;
  static Result<Preprocessor> FromBytes(const std::string& bytes, const std::string& path);

  const TextConfig& config() const { return vectorizer_.config(); }
  const Vectorizer& vectorizer() const { return vectorizer_; }
  // For people; with a vocabulary labels may have the same name.
  const std::vector<std::string>& label_names() const { return label_names_; }
  // What the labels are called; empty: the model was trained without a vocabulary.
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // By label id; null: without a vocabulary names are the only identifiers.
  const std::vector<std::string>* label_uris() const {
    return vocabulary_.empty() ? nullptr : &vocabulary_.ids();
  }
  uint32_t num_features() const { return vectorizer_.size(); }
  uint32_t num_labels() const { return static_cast<uint32_t>(label_names_.size()); }

  // Of words and sessions: the id of a token, as feature and as label; nullopt: it is left out.
  std::optional<uint32_t> TokenId(std::string_view token) const;

  // The id of a label of the model by its name, or identifier; nullopt: the model lacks it.
  std::optional<uint32_t> LabelId(const std::string& name) const;
  // The labels whose name is one word, of samples that have that word's feature: the items of a
  // session that are in it already. `features`: ascending.
  std::vector<uint32_t> OwnLabels(std::span<const uint32_t> features) const;
  // The id of a label that the model lacks: N, N + 1 ..., the same whenever the name comes again.
  uint32_t UnknownLabel(const std::string& name) const;
  // Of a label of the model, or one that it lacks and that an Encoder met.
  std::string LabelName(uint32_t id) const;

  // A thread's way to encode records.
  class Encoder {
   public:
    explicit Encoder(const Preprocessor& preprocessor);
    // Valid until the next call. Labels that the model lacks have ids from N on. Of words the
    // features are those of the text, with equal values that add up to 1; of sessions the items so
    // far.
    SampleView Encode(const Record& record);

   private:
    void EncodeTokens(const Record& record);

    const Preprocessor& preprocessor_;
    TermExtractor extractor_;
    std::optional<TokenBreaker> breaker_;  // of words and sessions
    std::vector<uint32_t> tokens_;
    TokenSamples::Scratch scratch_;
    std::vector<uint32_t> labels_;
    std::vector<uint32_t> features_;
    std::vector<float> values_;
  };

 private:
  static Result<Preprocessor> FitTokens(const std::string& path, const TextConfig& config,
                                        size_t threads);

  Vectorizer vectorizer_;
  std::vector<std::string> label_names_;
  std::unordered_map<std::string_view, uint32_t> label_ids_;  // views into label_names_
  Vocabulary vocabulary_;                                     // in place of label_ids_
  struct UnknownLabels {
    Mutex mutex;
    std::unordered_map<std::string, uint32_t> ids DSLIDE_GUARDED_BY(mutex);
    std::vector<std::string> names DSLIDE_GUARDED_BY(mutex);
  };
  std::unique_ptr<UnknownLabels> unknown_;
  // By feature id, the labels whose name is that word; made when they are first wanted.
  struct WordLabels {
    std::once_flag made;
    std::unordered_multimap<uint32_t, uint32_t> of_feature;
  };
  std::unique_ptr<WordLabels> word_labels_;
};

}  // namespace dslide
