#include "common/text/open_vocabulary.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "common/text/vectorizer.h"

namespace dslide {

OpenNames::OpenNames(StoredNames known, const StoredNames& candidates) : known_(std::move(known)) {
  for (uint32_t id = 0; id < known_.names.size(); ++id) {
    if (!known_.names[id].empty()) ids_.emplace(known_.hashes[id], id);
  }
  for (auto id = static_cast<uint32_t>(known_.names.size()); id-- > 0;) {
    if (known_.names[id].empty()) free_.push_back(id);
  }
  for (size_t i = 0; i < candidates.names.size(); ++i) {
    candidates_[candidates.hashes[i]] = {candidates.names[i], candidates.counts[i],
                                         candidates.seen[i], candidates.blocks[i]};
  }
}

StoredNames OpenNames::Candidates() const {
  std::vector<uint64_t> hashes;
  for (const auto& [hash, candidate] : candidates_) hashes.push_back(hash);
  std::ranges::sort(hashes);
  StoredNames stored;
  for (const uint64_t hash : hashes) {
    const Candidate& candidate = candidates_.at(hash);
    stored.hashes.push_back(hash);
    stored.blocks.push_back(candidate.block);
    stored.counts.push_back(candidate.count);
    stored.seen.push_back(candidate.seen);
    stored.names.push_back(candidate.name);
  }
  return stored;
}

OpenNames::Change OpenNames::End(uint32_t segment, const Rules& rules) {
  Change change;
  Admit(rules, &change);
  if (segment == 1 && change.taken_up == 0) {
    Rules all = rules;
    all.admit_count = 1;
    all.most_count = 0;
    Admit(all, &change);
  }
  touched_.clear();
  // A model has at least one id.
  if (known_.names.empty()) {
    known_ = {{0}, {0}, {0.0f}, {segment}, {""}};
    free_.push_back(0);
    change.gone.push_back(0);
  }
  // After Admit(): an id rests for a segment before another name has it.
  if (rules.expire_segments > 0) Expire(segment, rules.expire_segments, &change);
  ForgetCandidates(segment, rules.expire_segments);
  return change;
}

void OpenNames::Fade(float factor) {
  for (float& count : known_.counts) count *= factor;
}

// The most frequent ones first.
void OpenNames::Admit(const Rules& rules, Change* change) {
  std::vector<std::pair<uint64_t, const Candidate*>> admitted;
  for (const uint64_t hash : touched_) {
    const auto found = candidates_.find(hash);
    if (found == candidates_.end() || found->second.count < rules.admit_count) continue;
    if (rules.most_count > 0 && found->second.count > rules.most_count) continue;
    admitted.emplace_back(hash, &found->second);
  }
  std::ranges::sort(admitted, [](const auto& a, const auto& b) {
    return std::tuple(-a.second->count, std::string_view(a.second->name), a.first) <
           std::tuple(-b.second->count, std::string_view(b.second->name), b.first);
  });
  if (rules.most > 0) {
    const size_t room = rules.most - std::min<size_t>(rules.most, ids_.size());
    admitted.resize(std::min(admitted.size(), room));
  }
  std::vector<uint64_t> hashes;
  for (const auto& [hash, candidate] : admitted) hashes.push_back(hash);
  for (const uint64_t hash : hashes) {
    GiveId(hash, std::move(candidates_.extract(hash).mapped()), change);
  }
  std::ranges::sort(change->again);
}

uint32_t OpenNames::GiveId(uint64_t hash, Candidate candidate, Change* change) {
  ++change->taken_up;
  auto id = static_cast<uint32_t>(known_.names.size());
  if (free_.empty()) {
    known_.hashes.push_back(hash);
    known_.blocks.push_back(candidate.block);
    known_.counts.push_back(candidate.count);
    known_.seen.push_back(candidate.seen);
    known_.names.push_back(std::move(candidate.name));
  } else {
    id = free_.back();
    free_.pop_back();
    change->again.push_back(id);
    known_.hashes[id] = hash;
    known_.blocks[id] = candidate.block;
    known_.counts[id] = candidate.count;
    known_.seen[id] = candidate.seen;
    known_.names[id] = std::move(candidate.name);
  }
  ids_.emplace(hash, id);
  return id;
}

void OpenNames::Expire(uint32_t segment, uint32_t expire_segments, Change* change) {
  for (uint32_t id = 0; id < known_.names.size(); ++id) {
    if (known_.names[id].empty() || segment - known_.seen[id] < expire_segments) continue;
    ids_.erase(known_.hashes[id]);
    known_.hashes[id] = 0;
    known_.blocks[id] = 0;
    known_.counts[id] = 0;
    known_.names[id].clear();
    change->gone.push_back(id);
  }
  free_.insert(free_.end(), change->gone.begin(), change->gone.end());
  std::ranges::sort(free_, std::greater<>());
  free_.erase(std::ranges::unique(free_).begin(), free_.end());
}

void OpenNames::ForgetCandidates(uint32_t segment, uint32_t expire_segments) {
  if (expire_segments > 0) {
    std::erase_if(candidates_, [&](const auto& entry) {
      return segment - entry.second.seen >= expire_segments;
    });
  }
  if (candidates_.size() <= kMostCandidates) return;
  std::vector<std::tuple<uint32_t, float, uint64_t>> oldest;
  for (const auto& [hash, candidate] : candidates_) {
    oldest.emplace_back(candidate.seen, candidate.count, hash);
  }
  std::ranges::sort(oldest);
  oldest.resize(oldest.size() - kMostCandidates / 2);
  for (const auto& [seen, count, hash] : oldest) candidates_.erase(hash);
}

OpenVocabulary::OpenVocabulary(const TextConfig& config, State state)
    : config_(config),
      extractor_(config),
      segment_(state.segment),
      counted_(state.counted),
      features_(std::move(state.features), state.new_features),
      labels_(std::move(state.labels), state.new_labels) {}

OpenVocabulary::State OpenVocabulary::Save() const {
  return {segment_,          counted_,
          features_.known(), features_.Candidates(),
          labels_.known(),   labels_.Candidates()};
}

OpenVocabulary::Change OpenVocabulary::Take(std::span<const Record> records, const Rules& rules) {
  ++segment_;
  if (rules.expire_segments > 0) {
    const float factor = 1.0f - 1.0f / static_cast<float>(rules.expire_segments);
    counted_ *= double{factor};
    features_.Fade(factor);
    labels_.Fade(factor);
  }
  counted_ += static_cast<double>(records.size());
  for (const Record& record : records) Count(record);
  const auto admit = static_cast<float>(rules.admit_count);
  const auto most_count = static_cast<float>(std::max(1.0, config_.max_share * counted_));
  Change change;
  change.features =
      features_.End(segment_, {admit, rules.expire_segments, most_count, config_.max_features});
  change.labels = labels_.End(segment_, {admit, rules.expire_segments, 0, 0});
  return change;
}

void OpenVocabulary::Count(const Record& record) {
  const std::span<const uint64_t> terms = extractor_.TermsOf(record);
  order_.resize(terms.size());
  for (uint32_t t = 0; t < order_.size(); ++t) order_[t] = t;
  std::ranges::sort(order_, {}, [&](uint32_t t) { return terms[t]; });
  for (size_t at = 0; at < order_.size(); ++at) {
    const uint32_t t = order_[at];
    if (at > 0 && terms[order_[at - 1]] == terms[t]) continue;
    features_.Note(terms[t], static_cast<uint8_t>(extractor_.BlockOf(t)), segment_,
                   [&] { return extractor_.NameOf(t); });
  }
  for (const std::string& label : record.labels) {
    if (label.empty()) continue;
    labels_.Note(XXH3_64bits(label.data(), label.size()), 0, segment_, [&] { return label; });
  }
}

Preprocessor OpenVocabulary::MakePreprocessor() const {
  const StoredNames& known = features_.stored();
  Vectorizer::Vocabulary vocabulary;
  vocabulary.hashes = known.hashes;
  vocabulary.names = known.names;
  for (size_t id = 0; id < known.names.size(); ++id) {
    const double idf = 1.0 + std::log((1.0 + counted_) / (1.0 + double{known.counts[id]}));
    vocabulary.weights.push_back(known.names[id].empty() ? 0.0f : static_cast<float>(idf));
    vocabulary.blocks.push_back(static_cast<TermBlock>(known.blocks[id]));
  }
  return Preprocessor(Vectorizer(config_, std::move(vocabulary)), labels_.stored().names);
}

}  // namespace dslide
