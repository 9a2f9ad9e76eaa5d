#include "tools/dslide/model/prediction_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dslide {

Result<PredictionFile> PredictionFile::Create(const std::string& path, bool json,
                                              const Names* names) {
  Result<OutputFile> out = OutputFile::Create(path);
  DSLIDE_RETURN_IF_ERROR(out);
  return PredictionFile(std::move(*out), json, names);
}

PredictionFile PredictionFile::StandardOutput(bool json, const Names* names) {
  return {OutputFile::StandardOutput(), json, names};
}

void PredictionFile::Write(const TopKReply& reply, uint32_t top_k,
                           std::span<const std::string> sample_ids) {
  if (!out_.IsOpen()) return;
  std::string labels, scores, lines;
  for (size_t i = 0; i + 1 < reply.offsets.size(); ++i) {
    labels.clear();
    scores.clear();
    const uint32_t end = std::min(reply.offsets[i + 1], reply.offsets[i] + top_k);
    for (uint32_t e = reply.offsets[i]; e < end; ++e) {
      const bool first = labels.empty();
      const uint32_t id = reply.ids[e];
      if (json_) {
        labels += first ? "" : ",";
        labels += names_ == nullptr ? std::to_string(id) : nlohmann::json((*names_)[id]).dump();
        scores += fmt::format("{}{}", first ? "" : ",", reply.scores[e]);
      } else {
        labels += first ? "" : names_ == nullptr ? " " : "\t";
        labels += fmt::format("{}:{:.4f}", names_ == nullptr ? std::to_string(id) : (*names_)[id],
                              reply.scores[e]);
      }
    }
    const std::string id = i < sample_ids.size() && !sample_ids[i].empty()
                               ? fmt::format("\"id\":{},", sample_ids[i])
                               : "";
    lines += json_ ? fmt::format("{{{}\"labels\":[{}],\"scores\":[{}]}}\n", id, labels, scores)
                   : labels + "\n";
  }
  out_.Write(lines);
}

}  // namespace dslide
