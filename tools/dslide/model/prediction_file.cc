#include "tools/dslide/model/prediction_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/base/plural.h"

namespace dslide {
namespace {

// Elements [begin, end) of a list, as JSON.
std::string Listed(std::span<const float> values, uint32_t begin, uint32_t end) {
  return "[" + Joined(values.subspan(begin, end - begin), ",") + "]";
}

}  // namespace

Result<PredictionFile> PredictionFile::Create(const std::string& path,
                                              const PredictionFormat& format) {
  Result<OutputFile> out = OutputFile::Create(path);
  DSLIDE_RETURN_IF_ERROR(out);
  return PredictionFile(std::move(*out), format);
}

PredictionFile PredictionFile::StandardOutput(const PredictionFormat& format) {
  return {OutputFile::StandardOutput(), format};
}

std::string PredictionFile::TextLine(const RankedLabels& ranking, uint32_t begin,
                                     uint32_t end) const {
  std::string line;
  for (uint32_t e = begin; e < end; ++e) {
    const uint32_t id = ranking.best.ids[e];
    if (e > begin) line += format_.names == nullptr ? ' ' : '\t';
    line += format_.names == nullptr ? std::to_string(id) : (*format_.names)[id];
    line += format_.probabilities ? fmt::format(":{:.6g}", ranking.probabilities[e])
                                  : fmt::format(":{:.4f}", ranking.best.scores[e]);
  }
  return line + "\n";
}

std::string PredictionFile::JsonLine(const RankedLabels& ranking, uint32_t begin, uint32_t end,
                                     const std::string& id) const {
  std::string line = id.empty() ? "{" : fmt::format("{{\"id\":{},", id);
  line += "\"labels\":[";
  for (uint32_t e = begin; e < end; ++e) {
    const uint32_t label = ranking.best.ids[e];
    if (e > begin) line += ',';
    line += format_.names == nullptr ? std::to_string(label)
                                     : nlohmann::json((*format_.names)[label]).dump();
  }
  if (format_.uris != nullptr) {
    line += "],\"uris\":[";
    for (uint32_t e = begin; e < end; ++e) {
      line += (e > begin ? "," : "") + nlohmann::json((*format_.uris)[ranking.best.ids[e]]).dump();
    }
  }
  line += "],\"scores\":" + Listed(ranking.best.scores, begin, end);
  if (format_.probabilities) {
    line += ",\"probabilities\":" + Listed(ranking.probabilities, begin, end);
  }
  return line + "}\n";
}

// The line of a record that cannot be read.
std::string PredictionFile::ErrorLine(std::string error) const {
  if (format_.json) {
    const auto replace = nlohmann::json::error_handler_t::replace;  // a path may not be UTF-8
    return fmt::format("{{\"error\":{},\"labels\":[],\"scores\":[]{}}}\n",
                       nlohmann::json(error).dump(-1, ' ', false, replace),
                       format_.probabilities ? ",\"probabilities\":[]" : "");
  }
  std::ranges::replace(error, '\n', ' ');
  return fmt::format("cannot be read: {}\n", error);
}

void PredictionFile::Write(const RankedLabels& ranking, uint32_t top_k,
                           std::span<const std::string> sample_ids,
                           std::span<const std::string> errors) {
  if (!out_.IsOpen()) return;
  const TopKReply& best = ranking.best;
  DSLIDE_CHECK(!format_.probabilities || ranking.probabilities.size() == best.ids.size());
  std::string lines;
  for (size_t i = 0; i + 1 < best.offsets.size(); ++i) {
    if (i < errors.size() && !errors[i].empty()) {
      lines += ErrorLine(errors[i]);
      continue;
    }
    const uint32_t begin = best.offsets[i];
    uint32_t end = std::min(best.offsets[i + 1], begin + top_k);
    // Probabilities descend, as scores do.
    while (format_.probabilities && end > begin &&
           ranking.probabilities[end - 1] < format_.threshold) {
      --end;
    }
    lines += format_.json
                 ? JsonLine(ranking, begin, end, i < sample_ids.size() ? sample_ids[i] : "")
                 : TextLine(ranking, begin, end);
  }
  out_.Write(lines);
}

}  // namespace dslide
