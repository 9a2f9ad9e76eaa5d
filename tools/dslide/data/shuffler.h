// Lines in random order, of more text than fits the memory.
//
// Each line gets a random key, and lines are given back by ascending keys. While they do not fit,
// they wait in scratch files, one for each range of keys, which are sorted one after another. So
// the order follows from the seed alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/random.h"
#include "common/data/scratch_file.h"

namespace dslide {

class Shuffler {
 public:
  // Scratch files come beside `output`, as soon as the lines take more than `memory_bytes`.
  Shuffler(uint64_t seed, std::string output, size_t memory_bytes)
      : random_(seed), output_(std::move(output)), memory_bytes_(memory_bytes) {}

  Status Add(std::string_view line);
  // Calls take() with each line. Called once, at the end.
  Status TakeAll(const std::function<void(std::string_view)>& take);

 private:
  static constexpr size_t kBuckets = 256;

  struct Line {
    uint64_t key;
    size_t begin, size;  // of text_
  };

  Status Spill();
  void TakeSorted(const std::function<void(std::string_view)>& take);
  void AddLine(uint64_t key, std::string_view line);

  Random random_;
  std::string output_;
  size_t memory_bytes_;
  std::string text_;
  std::vector<Line> lines_;
  std::vector<ScratchFile> buckets_;  // none, or kBuckets
};

}  // namespace dslide
