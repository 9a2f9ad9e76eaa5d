// Checksums of the large sections of a model file that is mapped into memory, each checked before
// its first use.
//
// Problem: opening a model file must not read gigabytes, and a flipped byte must not change a
// prediction silently. Solution: the file's description has a checksum for each block of a large
// section; whoever reads a part of a section calls Check() for it first, which reads the blocks
// that nobody has checked yet. A section without checksums of blocks (of an earlier version) is one
// block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// The error of a section that differs from its checksum; kBadInput.
Error DamagedModelFile(const std::string& path, std::string_view section);

// Any number of threads may use an object. The bytes of the sections must outlive it, and must not
// change. Two threads that need a block at the same time may both compute its checksum.
class BlockChecks {
 public:
  struct Section {
    std::string name;
    std::string_view bytes;           // not empty
    size_t block_bytes;               // > 0; the last block may be shorter
    std::vector<uint64_t> checksums;  // of every block, XXH3
  };

  // REQUIRES as many checksums as blocks in each section. Errors will name `path`.
  BlockChecks(std::string path, std::vector<Section> sections);

  // Checks the blocks in which `part` lies, unless they have been checked. REQUIRES a part of one
  // of the sections, or an empty one. A block that differs from its checksum is an error
  // (kBadInput), which names the file and the section, at every call.
  Status Check(std::string_view part) const;
  // Checks all blocks of all sections.
  Status CheckAll() const;

  size_t checked_blocks() const;

 private:
  struct CheckedSection {
    Section section;
    std::unique_ptr<std::atomic<bool>[]> is_checked;  // [blocks]
  };

  Status CheckBlocks(const CheckedSection& of, size_t begin, size_t end) const;

  std::string path_;
  std::vector<CheckedSection> sections_;
};

}  // namespace dslide
