#include "common/text/vocabulary/vocabulary.h"

#include <xxhash.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

uint64_t HashOf(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace

std::string_view NormalIdentifier(std::string_view id) {
  if (id.size() > 2 && id.front() == '<' && id.back() == '>') id = id.substr(1, id.size() - 2);
  for (const std::string_view scheme : {"http:", "https:"}) {
    if (id.starts_with(scheme)) {
      id.remove_prefix(scheme.size());
      break;
    }
  }
  while (id.size() > 1 && id.back() == '/') id.remove_suffix(1);
  return id;
}

bool Vocabulary::Entry::operator<(const Entry& other) const {
  return std::tie(hash, name, owner) < std::tie(other.hash, other.name, other.owner);
}

Vocabulary::Vocabulary(std::vector<std::string> ids, std::vector<std::string> names,
                       std::vector<uint32_t> owners)
    : ids_(std::move(ids)), names_(std::move(names)), owners_(std::move(owners)) {
  DSLIDE_CHECK(names_.size() == owners_.size() && std::ranges::is_sorted(owners_));
  DSLIDE_CHECK(owners_.empty() || owners_.back() < ids_.size());
  first_names_.reserve(ids_.size() + 1);
  for (uint32_t c = 0, n = 0; c <= ids_.size(); ++c) {
    while (n < owners_.size() && owners_[n] < c) ++n;
    first_names_.push_back(n);
  }
  index_.reserve(ids_.size() + names_.size());
  for (uint32_t c = 0; c < ids_.size(); ++c) {
    index_.push_back({HashOf(NormalIdentifier(ids_[c])), kIdentifier, c});
  }
  for (uint32_t n = 0; n < names_.size(); ++n) index_.push_back({HashOf(names_[n]), n, owners_[n]});
  std::sort(index_.begin(), index_.end());
}

std::span<const std::string> Vocabulary::NamesOf(uint32_t concept_number) const {
  const uint32_t begin = first_names_[concept_number];
  return std::span(names_).subspan(begin, first_names_[concept_number + 1] - begin);
}

std::string_view Vocabulary::Label(uint32_t concept_number) const {
  const auto names = NamesOf(concept_number);
  if (!names.empty()) return names.front();
  std::string_view id = ids_[concept_number];
  if (id.starts_with('<') && id.ends_with('>')) id = id.substr(1, id.size() - 2);
  while (id.size() > 1 && id.back() == '/') id.remove_suffix(1);
  const size_t at = id.find_last_of("/#:");
  return at == std::string_view::npos || at + 1 == id.size() ? id : id.substr(at + 1);
}

std::optional<uint32_t> Vocabulary::Find(std::string_view id_or_name) const {
  const auto equal = [&](uint64_t hash) {
    return std::ranges::equal_range(index_, hash, {}, &Entry::hash);
  };
  const std::string_view id = NormalIdentifier(id_or_name);
  for (const Entry& entry : equal(HashOf(id))) {
    if (entry.name == kIdentifier && NormalIdentifier(ids_[entry.owner]) == id) return entry.owner;
  }
  std::optional<uint32_t> synonym;
  for (const Entry& entry : equal(HashOf(id_or_name))) {
    if (entry.name == kIdentifier || names_[entry.name] != id_or_name) continue;
    if (entry.name == first_names_[entry.owner]) return entry.owner;
    if (!synonym) synonym = entry.owner;
  }
  return synonym;
}

uint64_t Vocabulary::CountAmbiguous() const {
  uint64_t ambiguous = 0;
  for (size_t begin = 0, end; begin < index_.size(); begin = end) {
    end = begin + 1;
    bool differ = false;
    for (; end < index_.size() && index_[end].hash == index_[begin].hash; ++end) {
      differ |= index_[end].name != kIdentifier && index_[begin].name != kIdentifier &&
                index_[end].owner != index_[begin].owner;
    }
    ambiguous += differ;
  }
  return ambiguous;
}

Vocabulary Vocabulary::Reordered(std::span<const uint32_t> order) const {
  std::vector<std::string> ids, names;
  std::vector<uint32_t> owners;
  for (uint32_t place = 0; place < order.size(); ++place) {
    ids.push_back(ids_[order[place]]);
    for (const std::string& name : NamesOf(order[place])) {
      names.push_back(name);
      owners.push_back(place);
    }
  }
  return Vocabulary(std::move(ids), std::move(names), std::move(owners));
}

}  // namespace dslide
