#include "common/text/open_vocabulary.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "common/text/vectorizer.h"

namespace dslide {

namespace {

// As much of a name as its first `most` bytes have, in whole characters of UTF-8.
std::string Shortened(std::string name, size_t most) {
  if (name.size() <= most) return name;
  while (most > 0 && (static_cast<unsigned char>(name[most]) & 0xc0u) == 0x80u) --most;
  name.resize(most);
  return name;
}

}  // namespace

OpenNames::OpenNames(StoredNames known, const StoredNames& candidates) : known_(std::move(known)) {
  for (uint32_t id = 0; id < known_.names.size(); ++id) {
    if (!known_.names[id].empty()) ids_.emplace(known_.hashes[id], id);
    name_bytes_ += known_.names[id].size();
  }
  for (auto id = static_cast<uint32_t>(known_.names.size()); id-- > 0;) {
    if (known_.names[id].empty()) free_.push_back(id);
  }
  for (size_t i = 0; i < candidates.names.size(); ++i) {
    candidates_[candidates.hashes[i]] = {candidates.names[i], candidates.counts[i],
                                         candidates.seen[i], candidates.blocks[i]};
    candidate_bytes_ += candidates.names[i].size();
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
    change.removed.push_back(0);
  }
  // After Admit(): an id rests for a segment before another name has it.
  if (rules.expire_segments > 0) Expire(segment, rules.expire_segments, &change);
  ForgetCandidates(segment, rules.expire_segments);
  return change;
}

void OpenNames::Fade(float factor, float enough) {
  for (float& count : known_.counts) count *= factor;
  for (auto& [hash, candidate] : candidates_) {
    if (candidate.count > enough) candidate.count = std::max(enough, candidate.count * factor);
  }
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
  const size_t room = RoomFor(admitted, rules);
  change->kept_out = static_cast<uint32_t>(admitted.size() - room);
  admitted.resize(room);
  std::vector<uint64_t> hashes;
  for (const auto& [hash, candidate] : admitted) hashes.push_back(hash);
  for (const uint64_t hash : hashes) {
    GiveId(hash, std::move(candidates_.extract(hash).mapped()), change);
  }
  std::ranges::sort(change->recycled);
}

// How many of them, from the first on.
size_t OpenNames::RoomFor(std::span<const std::pair<uint64_t, const Candidate*>> admitted,
                          const Rules& rules) const {
  size_t bytes = name_bytes_, fit = 0;
  for (const auto& [hash, candidate] : admitted) {
    bytes += candidate->name.size();
    const bool has_id = fit < free_.size() || fit - free_.size() < rules.most_new_ids;
    if (!has_id || bytes > kMostNameBytes) break;
    ++fit;
  }
  return fit;
}

uint32_t OpenNames::GiveId(uint64_t hash, Candidate candidate, Change* change) {
  ++change->taken_up;
  candidate_bytes_ -= candidate.name.size();
  name_bytes_ += candidate.name.size();
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
    change->recycled.push_back(id);
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
    name_bytes_ -= known_.names[id].size();
    known_.names[id].clear();
    change->removed.push_back(id);
  }
  free_.insert(free_.end(), change->removed.begin(), change->removed.end());
  std::ranges::sort(free_, std::greater<>());
  free_.erase(std::ranges::unique(free_).begin(), free_.end());
}

void OpenNames::ForgetCandidates(uint32_t segment, uint32_t expire_segments) {
  if (expire_segments > 0) {
    std::erase_if(candidates_, [&](const auto& entry) {
      if (segment - entry.second.seen < expire_segments) return false;
      candidate_bytes_ -= entry.second.name.size();
      return true;
    });
  }
  if (candidates_.size() <= kMostCandidates && candidate_bytes_ <= kMostCandidateBytes) return;
  std::vector<std::tuple<uint32_t, float, uint64_t>> oldest;
  for (const auto& [hash, candidate] : candidates_) {
    oldest.emplace_back(candidate.seen, candidate.count, hash);
  }
  std::ranges::sort(oldest);
  for (const auto& [seen, count, hash] : oldest) {
    if (candidates_.size() <= kMostCandidates / 2 && candidate_bytes_ <= kMostCandidateBytes / 2) {
      break;
    }
    candidate_bytes_ -= candidates_.extract(hash).mapped().name.size();
  }
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
  const auto admit = static_cast<float>(rules.admit_count);
  if (rules.expire_segments > 0) {
    const float factor = 1.0f - 1.0f / static_cast<float>(rules.expire_segments);
    counted_ *= double{factor};
    const float enough = rules.fades_candidates ? admit : std::numeric_limits<float>::infinity();
    features_.Fade(factor, enough);
    labels_.Fade(factor, enough);
  }
  counted_ += static_cast<double>(records.size());
  for (const Record& record : records) Count(record);
  const auto most_count = static_cast<float>(std::max(1.0, config_.max_share * counted_));
  Change change;
  // Labels first: they are the fewer ones, and what a model is for.
  const Limit& limit = rules.limit;
  change.labels = labels_.End(
      segment_, {admit, rules.expire_segments, 0, 0, NewIds(limit, labels_, limit.label_bytes)});
  change.features =
      features_.End(segment_, {admit, rules.expire_segments, most_count, config_.max_features,
                               NewIds(limit, features_, limit.feature_bytes)});
  return change;
}

// How many ids there is room for beside those that there are.
size_t OpenVocabulary::NewIds(const Limit& limit, const OpenNames& of, uint64_t bytes_of_id) const {
  const auto less = [](uint64_t from, uint64_t taken) { return from - std::min(from, taken); };
  const uint64_t all = features_.size() * limit.feature_bytes + labels_.size() * limit.label_bytes;
  const uint64_t share = limit.bytes - limit.bytes / 8;
  const uint64_t bytes = std::min(less(limit.bytes, all), less(share, of.size() * bytes_of_id));
  const size_t ids = less(kMostIds, size_t{features_.size()} + labels_.size());
  return std::min<size_t>(bytes / bytes_of_id, ids);
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
                   [&] { return Shortened(extractor_.NameOf(t), kLongestName); });
  }
  for (const std::string& label : record.labels) {
    if (label.empty() || label.size() > kLongestLabel) continue;
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
