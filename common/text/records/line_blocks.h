// A text file in blocks of lines, which threads work on at once.
//
// Which lines make up a block depends on the file alone, so that what is made of the blocks in
// their order does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/text_stream.h"

namespace dslide {

class LineBlock {
 public:
  static constexpr size_t kMostLines = 4096;
  static constexpr size_t kMostBytes = size_t{4} << 20;  // one line may be longer

  // The next lines; none at the end of the file. Blank lines are left out unless `keep_blank`.
  static Result<LineBlock> Read(TextStream* stream, bool keep_blank = false);

  size_t size() const { return lines_.size(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : lines_[i - 1].end;
    return std::string_view(text_).substr(begin, lines_[i].end - begin);
  }
  // In the file, from 1.
  uint64_t NumberOf(size_t i) const { return lines_[i].number; }

 private:
  struct Line {
    size_t end;
    uint64_t number;
  };
  std::string text_;
  std::vector<Line> lines_;
};

// Runs work(i) for i in [0, count) on a thread each.
template <typename Work>
void InParallel(size_t count, const Work& work) {
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  if (count > 0) work(0);
}

// Makes a Part of each of the next blocks, at most `threads` of them, by work(thread, block), which
// returns a Result<Part>, on a thread each. In the blocks' order; none at the end of the file.
template <typename Part, typename Work>
Result<std::vector<Part>> MapNextBlocks(TextStream* stream, bool keep_blank, size_t threads,
                                        const Work& work) {
  std::vector<LineBlock> blocks;
  while (blocks.size() < threads) {
    Result<LineBlock> block = LineBlock::Read(stream, keep_blank);
    DSLIDE_RETURN_IF_ERROR(block);
    if (block->size() == 0) break;
    blocks.push_back(*std::move(block));
  }
  std::vector<std::optional<Result<Part>>> results(blocks.size());
  InParallel(blocks.size(), [&](size_t i) { results[i].emplace(work(i, blocks[i])); });
  std::vector<Part> parts;
  for (std::optional<Result<Part>>& result : results) {
    DSLIDE_RETURN_IF_ERROR(*result);
    parts.push_back(**std::move(result));
  }
  return parts;
}

// The same for the whole file, without blank lines: take(std::vector<Part>&) gets some Parts at a
// time.
template <typename Part, typename Work, typename Take>
Status MapBlocks(TextStream* stream, size_t threads, const Work& work, const Take& take) {
  while (true) {
    Result<std::vector<Part>> parts = MapNextBlocks<Part>(stream, false, threads, work);
    DSLIDE_RETURN_IF_ERROR(parts);
    if (parts->empty()) return {};
    take(*parts);
  }
}

}  // namespace dslide
