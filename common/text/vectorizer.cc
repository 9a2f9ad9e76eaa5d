#include "common/text/vectorizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/text/hashed_terms.h"

namespace dslide {
namespace {

// By block: the sum of squares of its part, then what scales that to the block's length in a whole
// of length 1.
class BlockScales {
 public:
  void Add(size_t block, float value) { squares_[block] += double{value} * value; }
  void Finish() {
    // The length of the whole, by blocks that are not empty.
    double whole = 0;
    for (size_t b = 0; b < kTermBlocks; ++b) {
      if (squares_[b] > 0) whole += double{kBlockLength[b]} * kBlockLength[b];
    }
    for (size_t b = 0; b < kTermBlocks; ++b) {
      if (squares_[b] > 0) {
        scales_[b] = static_cast<float>(kBlockLength[b] / std::sqrt(squares_[b] * whole));
      }
    }
  }
  float operator[](size_t block) const { return scales_[block]; }

 private:
  std::array<double, kTermBlocks> squares_{};
  std::array<float, kTermBlocks> scales_{};
};

}  // namespace

Vectorizer::Vocabulary Vectorizer::Choose(const TextConfig& config, const TermCounts& counts,
                                          uint64_t samples, const Vectorizer* known) {
  struct Candidate {
    TermTable::Entry entry;
    std::string_view name;
  };
  const double most = double{config.max_share} * static_cast<double>(samples);
  std::vector<Candidate> candidates;
  for (const TermTable& shard : counts.shards()) {
    shard.ForEach([&](const TermTable::Entry& entry) {
      if (entry.samples < config.min_samples || entry.samples > most) return;
      if (known != nullptr && known->Has(entry.hash)) return;
      candidates.push_back({entry, shard.NameOf(entry)});
    });
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    if (a.entry.samples != b.entry.samples) return a.entry.samples > b.entry.samples;
    return a.name != b.name ? a.name < b.name : a.entry.hash < b.entry.hash;
  });
  candidates.resize(std::min<size_t>(candidates.size(), config.max_features));
  Vocabulary chosen;
  const auto n = static_cast<double>(samples);
  for (const Candidate& candidate : candidates) {
    chosen.hashes.push_back(candidate.entry.hash);
    chosen.weights.push_back(
        static_cast<float>(1.0 + std::log((1.0 + n) / (1.0 + candidate.entry.samples))));
    chosen.blocks.push_back(candidate.entry.block);
    chosen.names.emplace_back(candidate.name);
  }
  return chosen;
}

Vectorizer::Vectorizer(const TextConfig& config, Vocabulary vocabulary)
    : config_(config), vocabulary_(std::move(vocabulary)) {
  DSLIDE_CHECK(!is_hashed());
  places_.assign(std::bit_ceil(2 * vocabulary_.hashes.size() + 2), {0, kFree});
  const size_t mask = places_.size() - 1;
  for (uint32_t id = 0; id < size(); ++id) {
    if (vocabulary_.weights[id] == 0) continue;  // the id is free
    size_t at = vocabulary_.hashes[id] & mask;
    while (places_[at].id != kFree) at = (at + 1) & mask;
    places_[at] = {vocabulary_.hashes[id], id};
  }
}

Vectorizer::Vectorizer(const TextConfig& config, std::vector<uint8_t> codes)
    : config_(config), codes_(std::move(codes)) {
  DSLIDE_CHECK(is_hashed() && codes_.size() == size_t{1} << config.hash_bits);
}

std::optional<uint32_t> Vectorizer::IdOf(uint64_t term) const {
  if (is_hashed()) {
    const uint32_t id = HashedId(term, config_.hash_bits);
    return codes_[id] == 0 ? std::nullopt : std::optional(id);
  }
  const size_t mask = places_.size() - 1;
  size_t at = term & mask;
  while (places_[at].id != kFree && places_[at].hash != term) at = (at + 1) & mask;
  if (places_[at].id == kFree) return std::nullopt;
  return places_[at].id;
}

void Vectorizer::Transform(const TermExtractor& extractor, std::vector<uint32_t>* ids,
                           std::vector<float>* values) const {
  ids->clear();
  values->clear();
  if (is_hashed()) return TransformHashed(extractor, ids, values);
  for (const uint64_t term : extractor.hashes()) {
    if (const std::optional<uint32_t> id = IdOf(term)) ids->push_back(*id);
  }
  std::ranges::sort(*ids);
  BlockScales scales;
  size_t distinct = 0;
  for (size_t begin = 0; begin < ids->size();) {
    const uint32_t id = (*ids)[begin];
    size_t end = begin + 1;
    while (end < ids->size() && (*ids)[end] == id) ++end;
    const float value = static_cast<float>(end - begin) * vocabulary_.weights[id];
    scales.Add(BlockOf(id), value);
    values->push_back(value);
    (*ids)[distinct++] = id;
    begin = end;
  }
  ids->resize(distinct);
  scales.Finish();
  for (size_t i = 0; i < ids->size(); ++i) (*values)[i] *= scales[BlockOf((*ids)[i])];
}

void Vectorizer::TransformHashed(const TermExtractor& extractor, std::vector<uint32_t>* ids,
                                 std::vector<float>* values) const {
  struct Part {
    uint32_t id;
    TermBlock block;
    float value;
    auto operator<=>(const Part&) const = default;
  };
  std::vector<Part> parts;
  const std::span<const uint64_t> terms = extractor.hashes();
  for (size_t t = 0; t < terms.size(); ++t) {
    if (const auto id = IdOf(terms[t])) parts.push_back({*id, extractor.BlockOf(t), 0});
  }
  std::ranges::sort(parts);
  BlockScales scales;
  size_t distinct = 0;
  for (size_t begin = 0; begin < parts.size();) {
    Part part = parts[begin];
    size_t end = begin + 1;
    while (end < parts.size() && parts[end] == parts[begin]) ++end;
    part.value = static_cast<float>(end - begin) * IdfOf(codes_[part.id]);
    scales.Add(static_cast<size_t>(part.block), part.value);
    parts[distinct++] = part;
    begin = end;
  }
  parts.resize(distinct);
  scales.Finish();
  for (const Part& part : parts) {
    const float value = part.value * scales[static_cast<size_t>(part.block)];
    if (!ids->empty() && ids->back() == part.id) {
      values->back() += value;
    } else {
      ids->push_back(part.id);
      values->push_back(value);
    }
  }
}

}  // namespace dslide
