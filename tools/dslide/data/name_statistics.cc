#include "tools/dslide/data/name_statistics.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "common/vocabulary/vocabulary_file.h"

namespace dslide {

void NameCounts::Add(const NameCounts& other) {
  labels += other.labels;
  unknown += other.unknown;
  mentioned += other.mentioned;
  mentions += other.mentions;
}

Result<NameStatistics> NameStatistics::Read(const std::string& path, const std::string& language,
                                            const std::string& stem) {
  NameStatistics names;
  Result<Vocabulary> vocabulary = ReadVocabulary(path, language, &names.notes_);
  DSLIDE_RETURN_IF_ERROR(vocabulary);
  names.vocabulary_ = std::make_unique<const Vocabulary>(*std::move(vocabulary));
  names.matcher_ = std::make_unique<const NameMatcher>(*names.vocabulary_, stem);
  return names;
}

uint64_t NameStatistics::named() const {
  uint64_t named = 0;
  for (uint32_t c = 0; c < vocabulary_->size(); ++c) named += !vocabulary_->NamesOf(c).empty();
  return named;
}

NameCounts NameStatistics::Counter::Count(const Record& record) {
  NameCounts counts;
  const std::span<const NameMatch> matches = finder_.Find(record);
  counts.mentions = matches.size();
  for (const std::string& label : record.labels) {
    ++counts.labels;
    const std::optional<uint32_t> known = names_.vocabulary_->Find(label);
    if (!known) {
      ++counts.unknown;
    } else {
      const auto match = std::ranges::lower_bound(matches, *known, {}, &NameMatch::label);
      counts.mentioned += match != matches.end() && match->label == *known;
    }
  }
  return counts;
}

}  // namespace dslide
