#include "common/text/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/text/records/line_blocks.h"

namespace dslide {
namespace {

constexpr size_t kLongestPart = size_t{1} << 20;

// Lookups by views of names.
struct NameHash : std::hash<std::string_view> {
  using is_transparent = void;
};
using NameCounts = std::unordered_map<std::string, uint64_t, NameHash, std::equal_to<>>;

// Bytes that no name has.
bool IsBlankByte(char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; }

Error InLine(const std::string& path, const LineBlock& block, size_t i, const Error& error) {
  return {error.kind, fmt::format("{}:{}: {}", path, block.NumberOf(i), error.message)};
}

// Calls take() with each token of a line. A line that cannot be read is an unreadable record.
void ForEachToken(const std::string& path, const LineBlock& block, size_t i, TokenBreaker* breaker,
                  UnreadableRecords* unreadable,
                  const std::function<void(std::string_view)>& take) {
  unreadable->CountRecord();
  const Status read = breaker->ForEachToken(block[i], take);
  if (!read.ok()) unreadable->LeaveOut(InLine(path, block, i, read.error()));
}

std::vector<TokenBreaker> Breakers(const TextConfig& config, size_t threads) {
  std::vector<TokenBreaker> breakers;
  for (size_t t = 0; t < threads; ++t) breakers.emplace_back(config);
  return breakers;
}

uint32_t LeastCount(const TextConfig& config) {
  if (config.min_count > 0) return config.min_count;
  return config.format == TextFormat::kWords ? 5 : 1;
}

std::string_view ThingOf(const TextConfig& config) {
  return config.format == TextFormat::kWords ? "word" : "item";
}

}  // namespace

TokenRules TokenRulesOf(const TextConfig& config) {
  TokenRules rules;
  rules.sessions = config.format == TextFormat::kSessions;
  rules.window = config.window > 0 ? config.window : rules.sessions ? 10 : 5;
  rules.subsample = double{config.subsample};
  rules.decay = config.decay;
  return rules;
}

TokenBreaker::TokenBreaker(const TextConfig& config)
    : items_(config.format == TextFormat::kSessions), breaker_(config.fold_accents) {
  if (!items_ && config.stem != kNoStems) stemmer_.emplace(config.stem);
}

Status TokenBreaker::ForEachToken(std::string_view line,
                                  const std::function<void(std::string_view)>& take) {
  if (!IsUtf8(line)) {
    return BadInput(
        fmt::format("{} is not UTF-8; convert the file, for instance by iconv", Quoted(line)));
  }
  if (!items_) {
    breaker_.ForEachWord(
        line, [&](std::string_view word) { take(stemmer_ ? stemmer_->StemOf(word) : word); });
    return {};
  }
  for (size_t begin = 0; begin < line.size();) {
    size_t end = begin;
    while (end < line.size() && !IsBlankByte(line[end])) ++end;
    if (end > begin) take(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return {};
}

Result<TextStream> OpenTokenFile(const std::string& path) {
  Result<TextStream> stream = TextStream::Open(path);
  if (stream.ok()) stream->CutLongLines(kLongestPart);
  return stream;
}

Result<std::vector<std::string>> CountTokens(const std::string& path, const TextConfig& config,
                                             size_t threads) {
  Result<TextStream> stream = OpenTokenFile(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  std::vector<TokenBreaker> breakers = Breakers(config, threads);
  struct Part {
    NameCounts counts;
    UnreadableRecords unreadable;
  };
  NameCounts counts;
  UnreadableRecords unreadable;
  DSLIDE_RETURN_IF_ERROR(MapBlocks<Part>(
      &*stream, threads,
      [&](size_t thread, const LineBlock& block) -> Result<Part> {
        Part own;
        for (size_t i = 0; i < block.size(); ++i) {
          ForEachToken(path, block, i, &breakers[thread], &own.unreadable,
                       [&](std::string_view token) {
                         const auto found = own.counts.find(token);
                         if (found != own.counts.end()) {
                           ++found->second;
                         } else {
                           own.counts.emplace(token, 1);
                         }
                       });
        }
        return own;
      },
      [&](std::vector<Part>& blocks) {
        for (const Part& block : blocks) {
          for (const auto& [name, count] : block.counts) counts[name] += count;
          unreadable.Append(block.unreadable);
        }
      }));
  DSLIDE_RETURN_IF_ERROR(unreadable.Check());
  if (counts.empty()) return BadInput(fmt::format("{}: has no {}", path, ThingOf(config)));
  std::vector<std::pair<uint64_t, std::string>> chosen;
  for (const auto& [name, count] : counts) {
    if (count >= LeastCount(config)) chosen.emplace_back(count, name);
  }
  if (chosen.empty()) {
    return BadInput(fmt::format("{}: no {} occurs {} times or more (text.min_count)", path,
                                ThingOf(config), LeastCount(config)));
  }
  std::ranges::sort(chosen, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  chosen.resize(std::min<size_t>(chosen.size(), config.max_features));
  std::vector<std::string> names;
  for (auto& [count, name] : chosen) names.push_back(std::move(name));
  return names;
}

Result<ReadTokens> NumberTokens(const std::string& path, const TextConfig& config,
                                const TokenNumberer& id_of, size_t threads) {
  Result<TextStream> stream = OpenTokenFile(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  std::vector<TokenBreaker> breakers = Breakers(config, threads);
  ReadTokens all;
  bool too_many = false;
  DSLIDE_RETURN_IF_ERROR(MapBlocks<ReadTokens>(
      &*stream, threads,
      [&](size_t thread, const LineBlock& block) -> Result<ReadTokens> {
        ReadTokens own;
        for (size_t i = 0; i < block.size(); ++i) {
          const size_t before = own.ids.size();
          ForEachToken(path, block, i, &breakers[thread], &own.unreadable,
                       [&](std::string_view token) {
                         if (const auto id = id_of(token)) {
                           own.ids.push_back(*id);
                         } else {
                           ++own.left_out;
                         }
                       });
          if (own.ids.size() > before) own.ids.push_back(TokenSamples::kLineEnd);
        }
        return own;
      },
      [&](std::vector<ReadTokens>& blocks) {
        for (const ReadTokens& block : blocks) {
          too_many |= all.ids.size() + block.ids.size() >= TokenSamples::kLineEnd;
          if (too_many) return;
          all.ids.insert(all.ids.end(), block.ids.begin(), block.ids.end());
          all.left_out += block.left_out;
          all.unreadable.Append(block.unreadable);
        }
      }));
  if (too_many)
    return BadInput(fmt::format("{}: has more than 4 billion {}s", path, ThingOf(config)));
  DSLIDE_RETURN_IF_ERROR(all.unreadable.Check());
  return all;
}

}  // namespace dslide
