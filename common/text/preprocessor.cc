#include "common/text/preprocessor.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "common/base/plural.h"
#include "common/base/random.h"
#include "common/config/stored_config.h"
#include "common/data/text_stream.h"
#include "common/text/format_1.h"
#include "common/text/hashed_terms.h"
#include "common/text/records/line_blocks.h"
#include "common/text/records/record_file.h"
#include "preprocessor_generated.h"

namespace dslide {
namespace {

// Terms that are counted at once: 48 bytes and a name each.
constexpr size_t kMostCountedTerms = size_t{16} << 20;

// A name's word counts at most so many times, where text.min_samples is higher.
constexpr uint32_t kMostNameCounts = 100;

// What one block of samples adds to the counts.
struct BlockCounts {
  TermTable terms;
  std::unordered_map<std::string, uint64_t> labels;
  uint64_t samples = 0;
  UnreadableRecords unreadable;
};

class BlockCounter {
 public:
  // `hashed`: takes the counts of terms; null: the blocks have them.
  BlockCounter(const TextConfig& config, HashedCounts* hashed)
      : hash_bits_(config.hash_bits),
        min_samples_(std::min(config.min_samples, kMostNameCounts)),
        hashed_(hashed),
        extractor_(config) {}

  BlockCounts Count(const RecordFile& file, const LineBlock& block) {
    BlockCounts counts;
    ForEachRecord(file, block, &counts.unreadable,
                  [&](const Record& record) { CountRecord(record, 1, &counts); });
    return counts;
  }
  // Counts names of labels as samples (NameRecord()). No word of a name is too rare: without its
  // words a label that has no other sample cannot be learned.
  BlockCounts Count(std::span<const std::string> names) {
    BlockCounts counts;
    for (const std::string& name : names) CountRecord(NameRecord(name), min_samples_, &counts);
    return counts;
  }

 private:
  // `times`: each word counts so many times.
  void CountRecord(const Record& record, uint32_t times, BlockCounts* counts) {
    ++counts->samples;
    for (const std::string& label : record.labels) ++counts->labels[label];
    const std::span<const uint64_t> terms = extractor_.TermsOf(record);
    if (hashed_ != nullptr) {
      CountIds(terms);
    } else {
      CountTerms(terms, times, &counts->terms);
    }
  }

  void CountTerms(std::span<const uint64_t> terms, uint32_t times, TermTable* counts) {
    order_.resize(terms.size());
    for (uint32_t t = 0; t < order_.size(); ++t) order_[t] = t;
    std::ranges::sort(order_, {}, [&](uint32_t t) { return terms[t]; });
    for (size_t at = 0; at < order_.size(); ++at) {
      const uint64_t hash = terms[order_[at]];
      if (at > 0 && terms[order_[at - 1]] == hash) continue;
      const TermBlock block = extractor_.BlockOf(order_[at]);
      counts->Add(hash, block, block == TermBlock::kWords ? times : 1,
                  [&] { return extractor_.NameOf(order_[at]); });
    }
  }

  void CountIds(std::span<const uint64_t> terms) {
    order_.clear();
    for (const uint64_t term : terms) order_.push_back(HashedId(term, hash_bits_));
    std::ranges::sort(order_);
    order_.erase(std::ranges::unique(order_).begin(), order_.end());
    hashed_->Add(order_);
  }

  uint32_t hash_bits_;
  uint32_t min_samples_;
  HashedCounts* hashed_;
  TermExtractor extractor_;
  std::vector<uint32_t> order_;  // of a sample's terms, by hash; or their ids
};

// The most frequent label first; those of fewer samples than `least` left out.
std::vector<std::string> ByFrequency(const std::unordered_map<std::string, uint64_t>& labels,
                                     uint64_t least) {
  std::vector<std::pair<uint64_t, std::string>> counted;
  for (const auto& [name, count] : labels) {
    if (count >= least) counted.emplace_back(count, name);
  }
  std::ranges::sort(counted, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::string> names;
  for (auto& [count, name] : counted) names.push_back(std::move(name));
  return names;
}

// The vocabulary with the concept of most samples first. An error if no label is a concept.
Result<Vocabulary> ByFrequency(const std::string& path,
                               const std::unordered_map<std::string, uint64_t>& labels,
                               const Vocabulary& vocabulary) {
  std::vector<uint64_t> counts(vocabulary.size());
  bool any = false;
  for (const auto& [name, count] : labels) {
    const std::optional<uint32_t> found = vocabulary.Find(name);
    if (found) counts[*found] += count;
    any |= found.has_value();
  }
  if (!any) {
    const std::string& first = std::ranges::min_element(labels)->first;
    return BadInput(fmt::format(
        "{}: no label is in the vocabulary, which has identifiers as {} and names as {}; a label "
        "of the file is {} (labels.vocabulary)",
        path, Quoted(vocabulary.id(0)), Quoted(vocabulary.Label(0)), Quoted(first)));
  }
  std::vector<uint32_t> order(vocabulary.size());
  for (uint32_t c = 0; c < order.size(); ++c) order[c] = c;
  std::ranges::stable_sort(order, std::greater<>(), [&](uint32_t c) { return counts[c]; });
  return vocabulary.Reordered(order);
}

std::vector<std::string> LabelsOf(const Vocabulary& vocabulary) {
  std::vector<std::string> labels;
  for (uint32_t c = 0; c < vocabulary.size(); ++c) labels.emplace_back(vocabulary.Label(c));
  return labels;
}

// What a file of records has.
struct FileCounts {
  TermCounts terms{kMostCountedTerms};
  std::unique_ptr<HashedCounts> hashed;  // with text.hash_bits, in place of `terms`
  std::unordered_map<std::string, uint64_t> labels;
  uint64_t samples = 0;
  TextFormat format = TextFormat::kRecords;  // of the file
};

// The file is read again to encode it.
Status CheckReadTwice(const std::string& path) {
  if (!IsReadOnce(path)) return {};
  return BadInput(
      fmt::format("{}: text is read twice; write it to a file and name that, or give it to "
                  "dslide train by train.data=-",
                  path));
}

// The error of a file of records that has no label at all.
Error NoLabels(const std::string& path, const RecordRules& rules) {
  const bool has_names =
      rules.format == RecordFormat::kJsonLines || rules.format == RecordFormat::kCsv;
  return BadInput(fmt::format(
      "{}: no sample has a label{}", path,
      has_names
          ? fmt::format(" (labels are read from the field {}; --fields labels:NAME, text.fields, "
                        "names another one)",
                        Quoted(rules.fields.labels))
          : ""));
}

// `names`: samples beside those of the file.
Result<FileCounts> CountFile(const std::string& path, const TextConfig& config, size_t threads,
                             std::span<const std::string> names = {}) {
  DSLIDE_RETURN_IF_ERROR(CheckReadTwice(path));
  Result<RecordFile::Opened> opened = RecordFile::TryOpen(path, DataFormatOf(config));
  DSLIDE_RETURN_IF_ERROR(opened);
  if (!opened->records) return UnknownFormat(path, opened->first_line, opened->names);
  RecordFile* file = &*opened->records;
  FileCounts counts;
  counts.format = opened->format;
  if (config.hash_bits > 0) counts.hashed = std::make_unique<HashedCounts>(config.hash_bits);
  std::vector<BlockCounter> counters;
  for (size_t t = 0; t < threads; ++t) counters.emplace_back(config, counts.hashed.get());
  UnreadableRecords unreadable;
  const auto merge = [&](std::vector<BlockCounts>& blocks) {
    std::vector<TermTable> tables;
    for (BlockCounts& block : blocks) {
      tables.push_back(std::move(block.terms));
      counts.samples += block.samples;
      unreadable.Append(block.unreadable);
      for (const auto& [name, count] : block.labels) counts.labels[name] += count;
    }
    counts.terms.Merge(tables, threads);
  };
  DSLIDE_RETURN_IF_ERROR(MapBlocks<BlockCounts>(
      file->stream(), threads,
      [&](size_t thread, const LineBlock& block) { return counters[thread].Count(*file, block); },
      merge));
  DSLIDE_RETURN_IF_ERROR(unreadable.Check());
  constexpr size_t kNames = 10'000;
  for (size_t begin = 0; begin < names.size(); begin += kNames) {
    std::vector<BlockCounts> block;
    block.push_back(
        counters[0].Count(names.subspan(begin, std::min(kNames, names.size() - begin))));
    merge(block);
  }
  if (counts.labels.empty()) return NoLabels(path, file->rules());
  return counts;
}

void Append(Vectorizer::Vocabulary more, Vectorizer::Vocabulary* all) {
  std::ranges::copy(more.hashes, std::back_inserter(all->hashes));
  std::ranges::copy(more.weights, std::back_inserter(all->weights));
  std::ranges::copy(more.blocks, std::back_inserter(all->blocks));
  std::ranges::move(more.names, std::back_inserter(all->names));
}

// The features that `config` wants of those counted, after those of `known`; null: there are none.
Vectorizer MakeVectorizer(const TextConfig& config, const FileCounts& counts,
                          const Vectorizer* known) {
  if (config.hash_bits > 0) {
    std::vector<uint8_t> codes;
    if (known != nullptr) codes = known->codes();
    return Vectorizer(config,
                      ChooseCodes(config, *counts.hashed, counts.samples, std::move(codes)));
  }
  Vectorizer::Vocabulary all;
  if (known != nullptr) all = known->vocabulary();
  Append(Vectorizer::Choose(config, counts.terms, counts.samples, known), &all);
  return Vectorizer(config, std::move(all));
}

bool LeavesAllOut(const Vectorizer& vectorizer) {
  if (!vectorizer.is_hashed()) return vectorizer.size() == 0;
  return std::ranges::all_of(vectorizer.codes(), [](uint8_t code) { return code == 0; });
}

// Terms are words, or their stems.
TextConfig WordsOnly(TextConfig config) {
  config.ngrams = 1;
  config.title = false;
  config.chars = 0;
  return config;
}

// Of the stems of the names' words; 0 without stems. It tells whether a later libstemmer, with
// whose stems the model would miss words, finds the same.
uint64_t StemChecksum(const TextConfig& config, const std::vector<std::string>& feature_names,
                      const std::vector<std::string>& label_names) {
  constexpr size_t kMostNames = 1000;
  if (config.stem == kNoStems) return 0;
  TermExtractor extractor(WordsOnly(config));
  uint64_t checksum = 1;
  for (const std::vector<std::string>* names : {&feature_names, &label_names}) {
    for (size_t i = 0; i < std::min(names->size(), kMostNames); ++i) {
      for (const uint64_t stem : extractor.TermsOf({{(*names)[i]}, {}})) {
        checksum = SubSeed(checksum, stem);
      }
    }
  }
  return checksum;
}

uint32_t FormatOf(const TextConfig& config, const Vocabulary& vocabulary) {
  if (!vocabulary.empty()) return 4;
  if (IsOfTokens(config)) return 3;
  const TextConfig format_1;
  const bool is_1 = config.stem == format_1.stem && config.chars == format_1.chars &&
                    config.hash_bits == format_1.hash_bits;
  return is_1 ? 1 : 2;
}

// Takes the line of a key out, if there is one.
void EraseKey(std::string_view key, std::string* text) {
  const size_t line = text->find(fmt::format("\n{} =", key));
  if (line != std::string::npos) text->erase(line, text->find('\n', line + 1) - line);
}

// Formats 3 and 4: the section [text]. Format 2: without the keys that it lacks. Format 1: without
// further keys, between other sections.
std::string StoredConfig(const TextConfig& text_config, uint32_t format) {
  Config config;
  config.text = text_config;
  const std::string all = FormatConfig(config);
  const size_t begin = all.find("[text]\n");
  std::string text = all.substr(begin, all.find("\n\n", begin) + 1 - begin);
  EraseKey("fields", &text);  // changes how a file is read, but not the samples of a model
  if (format >= 3) return text;
  for (const char* key : {"format", "window", "min_count", "subsample", "decay"}) {
    EraseKey(key, &text);
  }
  if (format == 2) return text;
  for (const char* key : {"stem", "chars", "hash_bits"}) EraseKey(key, &text);
  return fmt::format("{}{}{}", kFormat1BeforeText, text, kFormat1BehindText);
}

struct Packed {
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> ends;
};
Packed Pack(const std::vector<std::string>& names) {
  Packed packed;
  for (const std::string& name : names) {
    packed.bytes.insert(packed.bytes.end(), name.begin(), name.end());
    packed.ends.push_back(packed.bytes.size());
  }
  return packed;
}

// The verifier of FlatBuffers looks at where a vector begins, which is not where its numbers do.
bool IsAligned(const flatbuffers::Vector<uint64_t>& numbers) {
  return numbers.size() == 0 ||
         reinterpret_cast<uintptr_t>(numbers.Data()) % alignof(uint64_t) == 0;
}

// False if the ends are not ascending within the bytes.
bool Unpack(const flatbuffers::Vector<uint8_t>* bytes, const flatbuffers::Vector<uint64_t>* ends,
            std::vector<std::string>* names) {
  if (bytes == nullptr || ends == nullptr || !IsAligned(*ends)) return false;
  uint64_t begin = 0;
  for (const uint64_t end : *ends) {
    if (end < begin || end > bytes->size()) return false;
    names->emplace_back(reinterpret_cast<const char*>(bytes->data()) + begin, end - begin);
    begin = end;
  }
  return true;
}

// The vocabulary of a file of format 4; nullopt: damaged.
std::optional<Vocabulary> ReadConcepts(const wire::Preprocessor& stored,
                                       std::vector<std::string> ids) {
  std::vector<std::string> names;
  if (ids.empty() || stored.concept_owners() == nullptr ||
      !Unpack(stored.concept_names(), stored.concept_name_ends(), &names)) {
    return std::nullopt;
  }
  std::vector<uint32_t> owners(stored.concept_owners()->begin(), stored.concept_owners()->end());
  if (owners.size() != names.size() || !std::ranges::is_sorted(owners) ||
      (!owners.empty() && owners.back() >= ids.size())) {
    return std::nullopt;
  }
  return Vocabulary(std::move(ids), std::move(names), std::move(owners));
}

// Returns false for an unknown format of records.
bool ReadDataFormat(const wire::Preprocessor& stored, TextConfig* text) {
  if (stored.data_fields() != nullptr) text->fields = stored.data_fields()->str();
  if (stored.data_format() == nullptr) return true;
  const std::optional<TextFormat> format = TextFormatByName(stored.data_format()->string_view());
  if (!format || !RecordFormatOf(*format)) return false;
  text->format = *format;
  return true;
}

}  // namespace

Error NoLabelLeft(const std::string& path, uint32_t min_label_samples) {
  return BadInput(fmt::format("{}: no label has {} or more (train.min_label_samples)", path,
                              Plural(min_label_samples, "sample")));
}

Record NameRecord(const std::string& name) { return {{name, name}, {}}; }

Preprocessor::Preprocessor(Vectorizer vectorizer, std::vector<std::string> label_names)
    : vectorizer_(std::move(vectorizer)),
      label_names_(std::move(label_names)),
      unknown_(std::make_unique<UnknownLabels>()),
      word_labels_(std::make_unique<WordLabels>()) {
  for (uint32_t id = 0; id < label_names_.size(); ++id) {
    if (!label_names_[id].empty()) label_ids_.emplace(label_names_[id], id);
  }
}

Preprocessor::Preprocessor(Vectorizer vectorizer, Vocabulary vocabulary)
    : Preprocessor(std::move(vectorizer), LabelsOf(vocabulary)) {
  label_ids_.clear();
  vocabulary_ = std::move(vocabulary);
}

std::optional<uint32_t> Preprocessor::LabelId(const std::string& name) const {
  if (!vocabulary_.empty()) return vocabulary_.Find(name);
  const auto found = label_ids_.find(name);
  if (found == label_ids_.end()) return std::nullopt;
  return found->second;
}

std::vector<uint32_t> Preprocessor::OwnLabels(std::span<const uint32_t> features) const {
  if (IsOfTokens(config())) return {features.begin(), features.end()};
  std::call_once(word_labels_->made, [this] {
    TermExtractor extractor(WordsOnly(vectorizer_.config()));
    for (uint32_t label = 0; label < num_labels(); ++label) {
      const std::span<const uint64_t> terms = extractor.TermsOf({{label_names_[label]}, {}});
      const auto id = terms.size() == 1 ? vectorizer_.IdOf(terms[0]) : std::nullopt;
      if (id) word_labels_->of_feature.emplace(*id, label);
    }
  });
  std::vector<uint32_t> labels;
  for (const uint32_t feature : features) {
    const auto [begin, end] = word_labels_->of_feature.equal_range(feature);
    for (auto found = begin; found != end; ++found) labels.push_back(found->second);
  }
  std::ranges::sort(labels);
  return labels;
}

uint32_t Preprocessor::UnknownLabel(const std::string& name) const {
  const MutexLock lock(unknown_->mutex);
  const auto next = num_labels() + static_cast<uint32_t>(unknown_->ids.size());
  const auto [entry, is_new] = unknown_->ids.emplace(name, next);
  if (is_new) unknown_->names.push_back(name);
  return entry->second;
}

std::string Preprocessor::LabelName(uint32_t id) const {
  if (id < num_labels()) return label_names_[id];
  const MutexLock lock(unknown_->mutex);
  return unknown_->names.at(id - num_labels());
}

std::optional<uint32_t> Preprocessor::TokenId(std::string_view token) const {
  return vectorizer_.IdOf(XXH3_64bits(token.data(), token.size()));
}

Result<Preprocessor> Preprocessor::FitTokens(const std::string& path, const TextConfig& config,
                                             size_t threads) {
  if (config.hash_bits > 0) {
    return BadInput("text.hash_bits: words and sessions have a vocabulary; leave it out");
  }
  DSLIDE_RETURN_IF_ERROR(CheckReadTwice(path));
  Result<std::vector<std::string>> names = CountTokens(path, config, threads);
  DSLIDE_RETURN_IF_ERROR(names);
  Vectorizer::Vocabulary vocabulary;
  for (const std::string& name : *names) {
    vocabulary.hashes.push_back(XXH3_64bits(name.data(), name.size()));
  }
  vocabulary.weights.assign(names->size(), 1.0f);
  vocabulary.blocks.assign(names->size(), TermBlock::kWords);
  vocabulary.names = *names;
  return Preprocessor(Vectorizer(config, std::move(vocabulary)), *std::move(names));
}

Result<Preprocessor> Preprocessor::Fit(const std::string& path, const TextConfig& config,
                                       size_t threads, uint32_t min_label_samples,
                                       const Vocabulary* vocabulary) {
  if (IsOfTokens(config)) return FitTokens(path, config, threads);
  if (config.hash_bits > 0 && config.max_features != TextConfig().max_features) {
    return BadInput(
        fmt::format("text.max_features = {}: text.hash_bits = {} makes {} features; leave one of "
                    "the two keys out",
                    config.max_features, config.hash_bits, uint64_t{1} << config.hash_bits));
  }
  const Result<FileCounts> counts =
      CountFile(path, config, threads,
                vocabulary == nullptr ? std::span<const std::string>() : vocabulary->names());
  DSLIDE_RETURN_IF_ERROR(counts);
  TextConfig found = config;
  found.format = counts->format;
  Vectorizer vectorizer = MakeVectorizer(found, *counts, nullptr);
  if (LeavesAllOut(vectorizer)) {
    return BadInput(fmt::format(
        "{}: no word occurs in {} or more, and at most in a share of {} of them (text.min_samples, "
        "text.max_share)",
        path, Plural(config.min_samples, "sample"), config.max_share));
  }
  if (vocabulary != nullptr) {
    Result<Vocabulary> ordered = ByFrequency(path, counts->labels, *vocabulary);
    DSLIDE_RETURN_IF_ERROR(ordered);
    return Preprocessor(std::move(vectorizer), *std::move(ordered));
  }
  std::vector<std::string> names = ByFrequency(counts->labels, min_label_samples);
  if (names.empty()) return NoLabelLeft(path, min_label_samples);
  return Preprocessor(std::move(vectorizer), std::move(names));
}

Result<Preprocessor> Preprocessor::Extend(const std::string& path, size_t threads,
                                          uint32_t min_label_samples,
                                          const DataFormat& format) const {
  TextConfig config = vectorizer_.config();
  config.format = format.format;
  config.fields = format.fields;
  Result<FileCounts> counts = CountFile(path, config, threads);
  DSLIDE_RETURN_IF_ERROR(counts);
  config.format = counts->format;
  if (!vocabulary_.empty()) {
    return Preprocessor(MakeVectorizer(config, *counts, &vectorizer_), Vocabulary(vocabulary_));
  }
  std::erase_if(counts->labels, [&](const auto& label) { return LabelId(label.first); });
  std::vector<std::string> labels = label_names_;
  std::ranges::move(ByFrequency(counts->labels, min_label_samples), std::back_inserter(labels));
  return Preprocessor(MakeVectorizer(config, *counts, &vectorizer_), std::move(labels));
}

std::string Preprocessor::ToBytes() const {
  const Vectorizer::Vocabulary& vocabulary = vectorizer_.vocabulary();
  const Packed features = Pack(vocabulary.names);
  const Packed labels = Pack(vocabulary_.empty() ? label_names_ : vocabulary_.ids());
  const Packed names = Pack(vocabulary_.names());
  std::vector<uint8_t> blocks;
  for (const TermBlock block : vocabulary.blocks) blocks.push_back(static_cast<uint8_t>(block));
  const uint32_t format = FormatOf(vectorizer_.config(), vocabulary_);
  const std::vector<uint8_t>& codes = vectorizer_.codes();
  const TextConfig& config = vectorizer_.config();
  const bool tells_format = RecordFormatOf(config.format).has_value();
  const std::string data_format(tells_format ? NameOf(config.format) : "");
  flatbuffers::FlatBufferBuilder builder;
  wire::FinishPreprocessorBuffer(
      builder, wire::CreatePreprocessorDirect(
                   builder, format, StoredConfig(vectorizer_.config(), format).c_str(),
                   &vocabulary.hashes, &vocabulary.weights, &blocks, &features.bytes,
                   &features.ends, &labels.bytes, &labels.ends, codes.empty() ? nullptr : &codes,
                   StemChecksum(vectorizer_.config(), vocabulary.names, label_names_),
                   tells_format ? data_format.c_str() : nullptr,
                   config.fields.empty() ? nullptr : config.fields.c_str(),
                   format < 4 ? nullptr : &names.bytes, format < 4 ? nullptr : &names.ends,
                   format < 4 ? nullptr : &vocabulary_.owners()));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<Preprocessor> Preprocessor::FromBytes(const std::string& bytes, const std::string& path) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  const auto damaged = [&] {
    return BadInput(fmt::format("{}: damaged ({} bytes)", path, bytes.size()));
  };
  if (bytes.size() < 8 || !wire::VerifyPreprocessorBuffer(verifier)) return damaged();
  const wire::Preprocessor& stored = *wire::GetPreprocessor(data);
  if (stored.format() == 0 || stored.format() > kPreprocessorFormat) {
    return BadInput(fmt::format("{}: format {}, this program reads formats 1 to {}", path,
                                stored.format(), kPreprocessorFormat));
  }
  Vectorizer::Vocabulary vocabulary;
  std::vector<std::string> labels;
  if (stored.config() == nullptr || stored.feature_hashes() == nullptr ||
      stored.feature_weights() == nullptr || stored.feature_blocks() == nullptr ||
      !IsAligned(*stored.feature_hashes()) ||
      !Unpack(stored.feature_names(), stored.feature_name_ends(), &vocabulary.names) ||
      !Unpack(stored.label_names(), stored.label_name_ends(), &labels)) {
    return damaged();
  }
  vocabulary.hashes.assign(stored.feature_hashes()->begin(), stored.feature_hashes()->end());
  vocabulary.weights.assign(stored.feature_weights()->begin(), stored.feature_weights()->end());
  for (const uint8_t block : *stored.feature_blocks()) {
    if (block >= kTermBlocks) return damaged();
    vocabulary.blocks.push_back(static_cast<TermBlock>(block));
  }
  const size_t size = vocabulary.hashes.size();
  if (vocabulary.weights.size() != size || vocabulary.names.size() != size ||
      vocabulary.blocks.size() != size) {
    return damaged();
  }
  std::optional<Vocabulary> concepts;
  if (stored.format() >= 4) {
    std::optional<Vocabulary> read = ReadConcepts(stored, std::move(labels));
    if (!read) return damaged();
    labels = LabelsOf(*read);
    concepts = std::move(read);
  }
  const auto make = [&](Vectorizer vectorizer) {
    if (concepts) return Preprocessor(std::move(vectorizer), *std::move(concepts));
    return Preprocessor(std::move(vectorizer), std::move(labels));
  };
  Result<Config> config = ParseStoredConfig(stored.config()->string_view(), path);
  DSLIDE_RETURN_IF_ERROR(config);
  if (!ReadDataFormat(stored, &config->text)) return damaged();
  if (stored.stem_checksum() != StemChecksum(config->text, vocabulary.names, labels)) {
    return BadInput(fmt::format(
        "{}: this machine's libstemmer finds other stems (text.stem = {}) than that of the model; "
        "install the version that it was trained with, or train again",
        path, config->text.stem));
  }
  const size_t hashed = stored.feature_codes() == nullptr ? 0 : stored.feature_codes()->size();
  if (config->text.hash_bits > 0) {
    if (size > 0 || hashed != size_t{1} << config->text.hash_bits) return damaged();
    std::vector<uint8_t> codes(stored.feature_codes()->begin(), stored.feature_codes()->end());
    return make(Vectorizer(config->text, std::move(codes)));
  }
  if (hashed > 0) return damaged();
  return make(Vectorizer(config->text, std::move(vocabulary)));
}

Preprocessor::Encoder::Encoder(const Preprocessor& preprocessor)
    : preprocessor_(preprocessor), extractor_(preprocessor.config()) {
  if (IsOfTokens(preprocessor.config())) breaker_.emplace(preprocessor.config());
}

void Preprocessor::Encoder::EncodeTokens(const Record& record) {
  tokens_.clear();
  for (const std::string& field : record.fields) {
    // A record is UTF-8.
    (void)breaker_->ForEachToken(field, [this](std::string_view token) {
      if (const auto id = preprocessor_.TokenId(token)) tokens_.push_back(*id);
    });
  }
  TokenSamples::FeaturesOf(TokenRulesOf(preprocessor_.config()), tokens_, &scratch_);
}

SampleView Preprocessor::Encoder::Encode(const Record& record) {
  labels_.clear();
  for (const std::string& name : record.labels) {
    const std::optional<uint32_t> known = preprocessor_.LabelId(name);
    labels_.push_back(known ? *known : preprocessor_.UnknownLabel(name));
  }
  std::ranges::sort(labels_);
  labels_.erase(std::ranges::unique(labels_).begin(), labels_.end());  // an identifier and its name
  if (breaker_) {
    EncodeTokens(record);
    return {labels_, scratch_.features, scratch_.values};
  }
  extractor_.TermsOf(record);
  preprocessor_.vectorizer_.Transform(extractor_, &features_, &values_);
  return {labels_, features_, values_};
}

}  // namespace dslide
