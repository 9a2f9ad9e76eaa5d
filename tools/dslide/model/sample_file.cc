#include "tools/dslide/model/sample_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/plural.h"
#include "common/data/measures/ranking_terms.h"

namespace dslide {
namespace {

template <typename T>
std::span<const T> FirstOf(std::span<const T> values, size_t count) {
  return values.first(std::min(count, values.size()));
}

double HitsIn(std::span<const uint32_t> predicted, std::span<const uint32_t> labels) {
  return static_cast<double>(
      std::count_if(predicted.begin(), predicted.end(),
                    [labels](uint32_t label) { return Contains(labels, label); }));
}

double ReciprocalRank(std::span<const uint32_t> predicted, std::span<const uint32_t> labels) {
  for (size_t rank = 0; rank < predicted.size(); ++rank) {
    if (Contains(labels, predicted[rank])) return 1.0 / static_cast<double>(rank + 1);
  }
  return 0;
}

// As JSON, separated by commas.
std::string Listed(std::span<const uint32_t> labels, const LabelNamer& name_of) {
  if (!name_of) return Joined(labels, ",");
  std::string text;
  for (const uint32_t label : labels) {
    text += text.empty() ? "" : ",";
    text += nlohmann::json(name_of(label)).dump();
  }
  return text;
}

}  // namespace

std::string SampleLine(uint64_t number, std::span<const uint32_t> labels,
                       std::span<const uint32_t> ranked, std::span<const float> scores,
                       uint32_t top_k, const LabelNamer& name_of) {
  const auto predicted = FirstOf(ranked, top_k);
  return fmt::format(
      "{{\"sample\":{},\"labels\":[{}],\"predicted\":[{}],\"scores\":[{}],"
      "\"p_at_1\":{},\"p_at_5\":{},\"recall\":{},\"reciprocal_rank\":{}}}\n",
      number, Listed(labels, name_of), Listed(predicted, name_of),
      Joined(FirstOf(scores, top_k), ","), HitsIn(FirstOf(ranked, 1), labels),
      HitsIn(FirstOf(ranked, 5), labels) / 5,
      Ratio(HitsIn(predicted, labels), static_cast<double>(labels.size())),
      ReciprocalRank(predicted, labels));
}

Result<SampleFile> SampleFile::Create(const std::string& path, uint32_t top_k, LabelNamer name_of) {
  Result<OutputFile> out = OutputFile::Create(path);
  DSLIDE_RETURN_IF_ERROR(out);
  return SampleFile(std::move(*out), top_k, std::move(name_of));
}

void SampleFile::Write(const SparseRows& labels, const TopKReply& reply) {
  if (!out_.IsOpen()) return;
  for (uint32_t i = 0; i < labels.rows(); ++i) {
    const auto scores = std::span<const float>(reply.scores)
                            .subspan(reply.offsets[i], reply.offsets[i + 1] - reply.offsets[i]);
    out_.Write(SampleLine(++samples_, labels.Ids(i), reply.Ids(i), scores, top_k_, name_of_));
  }
}

}  // namespace dslide
