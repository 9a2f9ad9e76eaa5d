// In how many samples each term occurs.
//
// Counted by blocks of samples, which are merged in their order into kShards parts of the hashes'
// space; a part belongs to one thread at a time. When a part has more than its share of
// `most_terms`, its rarest terms are forgotten (Manku and Motwani: "Approximate Frequency Counts
// over Data Streams", VLDB 2002, section 4.2, forget in the same way). What is forgotten depends on
// the blocks alone, not on the threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/terms.h"

namespace dslide {

class TermTable {
 public:
  struct Entry {
    uint64_t hash;
    uint32_t samples;  // 0: the entry is free
    uint32_t name_size;
    uint64_t name;  // offset
    TermBlock block;
  };

  // Adds `samples` to the count of a term. make_name() gives the name of one that
  // is new, as a string or a view.
  template <typename MakeName>
  void Add(uint64_t hash, TermBlock block, uint32_t samples, const MakeName& make_name) {
    if (2 * (size_ + 1) > entries_.size()) Grow();
    Entry& entry = entries_[Place(hash)];
    if (entry.samples == 0) {
      const auto name = make_name();
      entry = {hash, 0, static_cast<uint32_t>(name.size()), names_.size(), block};
      names_.append(name);
      ++size_;
    }
    entry.samples += samples;
  }
  // Keeps the more frequent half of the terms, or fewer.
  void ForgetRarest();

  size_t size() const { return size_; }
  std::string_view NameOf(const Entry& entry) const {
    return std::string_view(names_).substr(entry.name, entry.name_size);
  }
  template <typename Take>
  void ForEach(const Take& take) const {
    for (const Entry& entry : entries_) {
      if (entry.samples > 0) take(entry);
    }
  }

 private:
  size_t Place(uint64_t hash) const;
  void Grow();

  std::vector<Entry> entries_;  // a power of two, by open addressing
  size_t size_ = 0;
  std::string names_;
};

class TermCounts {
 public:
  static constexpr size_t kShards = 64;

  explicit TermCounts(size_t most_terms) : most_terms_(most_terms), shards_(kShards) {}

  // Adds the counts of blocks, in their order, on `threads` threads.
  void Merge(const std::vector<TermTable>& blocks, size_t threads);

  const std::vector<TermTable>& shards() const { return shards_; }

 private:
  size_t most_terms_;
  std::vector<TermTable> shards_;
};

}  // namespace dslide
