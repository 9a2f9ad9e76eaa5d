// The identifier and the names of each label. Libraries, archives and shops have a file of them
// (common/vocabulary), and their data refers to a label by its identifier or by a name.
//
// A concept has an identifier (often a URI) and any number of names. The first is its preferred
// name, the others are synonyms. Two concepts may have the same name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dslide {

// An identifier without what differs between two files of the same concepts: angle brackets around
// it, http or https, and slashes at its end. A view into `id`.
std::string_view NormalIdentifier(std::string_view id);

// Immutable; any number of threads may use it.
class Vocabulary {
 public:
  Vocabulary() = default;
  // `ids`: each once. `names[i]` is a name of the concept `owners[i]`; the owners ascend.
  Vocabulary(std::vector<std::string> ids, std::vector<std::string> names,
             std::vector<uint32_t> owners);

  bool empty() const { return ids_.empty(); }
  uint32_t size() const { return static_cast<uint32_t>(ids_.size()); }  // concepts
  const std::vector<std::string>& ids() const { return ids_; }
  const std::string& id(uint32_t concept_number) const { return ids_[concept_number]; }
  // The preferred name, then the synonyms. May be empty.
  std::span<const std::string> NamesOf(uint32_t concept_number) const;
  // The preferred name, else a short form of the identifier: what follows its last '/', '#' or ':'.
  std::string_view Label(uint32_t concept_number) const;

  // The concept with this identifier, else the one with this name: a preferred name before a
  // synonym, the first concept before later ones.
  std::optional<uint32_t> Find(std::string_view id_or_name) const;

  // Names, of all concepts one after another, and the concept of each.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<uint32_t>& owners() const { return owners_; }
  // Different names that more than one concept has.
  uint64_t CountAmbiguous() const;

  // A copy with concept order[i] at place i, without the concepts that `order` lacks.
  Vocabulary Reordered(std::span<const uint32_t> order) const;

 private:
  struct Entry {  // of the index: a hash of an identifier or name
    uint64_t hash;
    uint32_t name;  // kIdentifier: an identifier
    uint32_t owner;
    bool operator<(const Entry& other) const;
  };
  static constexpr uint32_t kIdentifier = UINT32_MAX;

  std::vector<std::string> ids_;
  std::vector<std::string> names_;
  std::vector<uint32_t> owners_;       // [names]
  std::vector<uint32_t> first_names_;  // [concepts + 1]
  std::vector<Entry> index_;           // sorted
};

}  // namespace dslide
