#include "common/model/block_checks.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/checkpoint/file_checksum.h"

namespace dslide {

Error DamagedModelFile(const std::string& path, std::string_view section) {
  return BadInput(
      fmt::format("{}: damaged ({}); copy it again, or export it again", path, Printable(section)));
}

BlockChecks::BlockChecks(std::string path, std::vector<Section> sections) : path_(std::move(path)) {
  for (Section& section : sections) {
    const size_t blocks = section.checksums.size();
    DSLIDE_CHECK(section.block_bytes > 0 && !section.bytes.empty());
    DSLIDE_CHECK(blocks == (section.bytes.size() - 1) / section.block_bytes + 1);
    sections_.push_back({std::move(section), std::make_unique<std::atomic<bool>[]>(blocks)});
  }
}

Status BlockChecks::Check(std::string_view part) const {
  if (part.empty()) return {};
  for (const CheckedSection& of : sections_) {
    const std::string_view bytes = of.section.bytes;
    if (part.data() < bytes.data() || part.data() >= bytes.data() + bytes.size()) continue;
    const auto offset = static_cast<size_t>(part.data() - bytes.data());
    DSLIDE_CHECK(part.size() <= bytes.size() - offset);
    return CheckBlocks(of, offset / of.section.block_bytes,
                       (offset + part.size() - 1) / of.section.block_bytes + 1);
  }
  DSLIDE_CHECK(false);  // no part of a section
}

Status BlockChecks::CheckAll() const {
  for (const CheckedSection& of : sections_) {
    DSLIDE_RETURN_IF_ERROR(CheckBlocks(of, 0, of.section.checksums.size()));
  }
  return {};
}

size_t BlockChecks::checked_blocks() const {
  size_t checked = 0;
  for (const CheckedSection& of : sections_) {
    for (size_t b = 0; b < of.section.checksums.size(); ++b) checked += of.is_checked[b] ? 1 : 0;
  }
  return checked;
}

// Blocks [begin, end). The flags order nothing else: the bytes do not change.
Status BlockChecks::CheckBlocks(const CheckedSection& of, size_t begin, size_t end) const {
  for (size_t b = begin; b < end; ++b) {
    if (of.is_checked[b].load(std::memory_order_relaxed)) continue;
    const std::string_view block =
        of.section.bytes.substr(b * of.section.block_bytes, of.section.block_bytes);
    if (ChecksumOf({reinterpret_cast<const uint8_t*>(block.data()), block.size()}) !=
        of.section.checksums[b]) {
      return DamagedModelFile(path_, of.section.name);
    }
    of.is_checked[b].store(true, std::memory_order_relaxed);
  }
  return {};
}

}  // namespace dslide
