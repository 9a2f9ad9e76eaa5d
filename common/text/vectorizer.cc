#include "common/text/vectorizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace dslide {

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
  places_.assign(std::bit_ceil(2 * vocabulary_.hashes.size() + 2), {0, kFree});
  const size_t mask = places_.size() - 1;
  for (uint32_t id = 0; id < size(); ++id) {
    size_t at = vocabulary_.hashes[id] & mask;
    while (places_[at].id != kFree) at = (at + 1) & mask;
    places_[at] = {vocabulary_.hashes[id], id};
  }
}

std::optional<uint32_t> Vectorizer::IdOf(uint64_t term) const {
  const size_t mask = places_.size() - 1;
  size_t at = term & mask;
  while (places_[at].id != kFree && places_[at].hash != term) at = (at + 1) & mask;
  if (places_[at].id == kFree) return std::nullopt;
  return places_[at].id;
}

void Vectorizer::Transform(std::span<const uint64_t> terms, std::vector<uint32_t>* ids,
                           std::vector<float>* values) const {
  ids->clear();
  values->clear();
  for (const uint64_t term : terms) {
    if (const std::optional<uint32_t> id = IdOf(term)) ids->push_back(*id);
  }
  std::ranges::sort(*ids);
  std::array<double, kTermBlocks> squares{};
  size_t distinct = 0;
  for (size_t begin = 0; begin < ids->size();) {
    const uint32_t id = (*ids)[begin];
    size_t end = begin + 1;
    while (end < ids->size() && (*ids)[end] == id) ++end;
    const float value = static_cast<float>(end - begin) * vocabulary_.weights[id];
    squares[BlockOf(id)] += double{value} * value;
    values->push_back(value);
    (*ids)[distinct++] = id;
    begin = end;
  }
  ids->resize(distinct);
  // The length of the whole, by blocks that are not empty.
  double whole = 0;
  for (size_t b = 0; b < kTermBlocks; ++b) {
    if (squares[b] > 0) whole += double{kBlockLength[b]} * kBlockLength[b];
  }
  std::array<float, kTermBlocks> scales{};
  for (size_t b = 0; b < kTermBlocks; ++b) {
    if (squares[b] > 0) {
      scales[b] = static_cast<float>(kBlockLength[b] / std::sqrt(squares[b] * whole));
    }
  }
  for (size_t i = 0; i < ids->size(); ++i) (*values)[i] *= scales[BlockOf((*ids)[i])];
}

}  // namespace dslide
