#include "common/checkpoint/stored_ranking.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/checkpoint/layout.h"
#include "common/data/whole_file.h"
#include "common/rank/stored_reranker.h"

namespace dslide {
namespace {

constexpr float kMostWeight = 10;
constexpr char kUsual[] = "logit_adjustment";
constexpr char kRare[] = "rare_logit_adjustment";

}  // namespace

Status StoreRanking(const std::string& directory, const LogitAdjustment& adjustment) {
  return WriteWholeFile(fmt::format("{}/{}", directory, kRankingName),
                        fmt::format("{{\"{}\": {}, \"{}\": {}}}\n", kUsual, adjustment.usual, kRare,
                                    adjustment.rare));
}

Result<LogitAdjustment> LoadRankingOf(const std::string& checkpoint) {
  const std::string path = fmt::format("{}/{}", DirectoryOfCheckpoint(checkpoint), kRankingName);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return LogitAdjustment();
  const Result<std::string> text = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(text);
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto weight = [&](const char* name) {
    const bool known = json.is_object() && json.contains(name) && json[name].is_number();
    const float value = known ? json[name].get<float>() : kMostWeight + 1;
    return std::abs(value) <= kMostWeight ? std::optional(value) : std::nullopt;
  };
  const auto usual = weight(kUsual), rare = weight(kRare);
  if (usual && rare) return LogitAdjustment{*usual, *rare};
  return BadInput(fmt::format(
      "{}: must be a JSON object with numbers {} and {} of at most {}; remove the file to rank "
      "labels without them",
      path, kUsual, kRare, kMostWeight));
}

Status StoreRerankerIn(const std::string& directory, const Reranker& reranker) {
  return WriteWholeFile(fmt::format("{}/{}", directory, kRerankerName), RerankerBytes(reranker));
}

Result<std::shared_ptr<const Reranker>> LoadRerankerOf(const std::string& checkpoint,
                                                       const Vocabulary& vocabulary) {
  const std::string path = fmt::format("{}/{}", DirectoryOfCheckpoint(checkpoint), kRerankerName);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::shared_ptr<const Reranker>();
  const Result<std::string> bytes = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(bytes);
  return ParseReranker(*bytes, vocabulary, path, "remove the file to rank labels without names");
}

}  // namespace dslide
