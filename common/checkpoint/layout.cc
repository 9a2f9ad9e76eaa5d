#include "common/checkpoint/layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <string_view>

namespace dslide {
namespace {

constexpr std::string_view kCheckpointPrefix = "step-";
constexpr std::string_view kShardPrefix = "shard-";
constexpr std::string_view kOrphanPrefix = "orphan-";
constexpr std::string_view kStorePrefix = "store-";
constexpr size_t kIncarnationDigits = 16;

// Reads "PREFIX<first>-<second>", all of it.
template <typename First, typename Second>
bool ParseTwoNumbers(std::string_view name, std::string_view prefix, First* first, Second* second) {
  if (!name.starts_with(prefix)) return false;
  const char* end = name.data() + name.size();
  const auto [dash, first_error] = std::from_chars(name.data() + prefix.size(), end, *first);
  if (first_error != std::errc() || dash == end || *dash != '-') return false;
  const auto [last, second_error] = std::from_chars(dash + 1, end, *second);
  return second_error == std::errc() && last == end;
}

}  // namespace

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string DirectoryOfCheckpoint(const std::string& checkpoint) {
  // The path of a file in the checkpoint: the parent of "step-1/." would be the checkpoint itself.
  const auto manifest = std::filesystem::weakly_canonical(checkpoint + "/" + kManifestName);
  return manifest.parent_path().parent_path().string();
}

bool IsPlainFileName(const std::string& name) {
  constexpr size_t kLongestFileName = 255;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= kLongestFileName && name.front() != '.' &&
         std::ranges::all_of(name, plain);
}

std::string CheckpointName(uint64_t batches) {
  return fmt::format("{}{:012}", kCheckpointPrefix, batches);
}

bool IsCheckpointName(const std::string& name) { return name.starts_with(kCheckpointPrefix); }

std::string PreprocessorName(uint64_t checksum) {
  return fmt::format("preprocessor-{:016x}", checksum);
}

std::string ShardName(uint32_t plan_version, uint32_t server_index) {
  return fmt::format("{}{}-{}", kShardPrefix, plan_version, server_index);
}

std::optional<uint32_t> PlanVersionOfShard(const std::string& name) {
  uint32_t plan_version = 0, server_index = 0;
  if (!ParseTwoNumbers(name, kShardPrefix, &plan_version, &server_index)) return std::nullopt;
  return plan_version;
}

std::string OrphanName(const Orphan& orphan) {
  return fmt::format("{}{}-{}", kOrphanPrefix, orphan.plan_version, orphan.committed);
}

std::optional<Orphan> ParseOrphanName(const std::string& name) {
  Orphan orphan;
  if (!ParseTwoNumbers(name, kOrphanPrefix, &orphan.plan_version, &orphan.committed)) {
    return std::nullopt;
  }
  return orphan;
}

std::string StoreName(const std::string& life) {
  std::string name(kStorePrefix);
  for (const char c : life) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-') {
      name += c;
    } else {
      name += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    }
  }
  return name;
}

bool IsStoreOfOtherLife(const std::string& name, const std::string& own) {
  if (own.size() <= kIncarnationDigits) return false;
  // Another server's name may begin with this one's: all but the digits is the same.
  const size_t digits = own.size() - kIncarnationDigits;
  return name.size() == own.size() && name != own && name.compare(0, digits, own, 0, digits) == 0 &&
         name.find_first_not_of("0123456789abcdef", digits) == std::string::npos;
}

}  // namespace dslide
