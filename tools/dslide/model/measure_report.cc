#include "tools/dslide/model/measure_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "common/base/plural.h"

namespace dslide {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Named {
  const char* in_table;  // nullptr: in JSON only
  const char* in_json;   // before "_at_k"
  bool weighted;         // by propensities
  double (*value)(const MeasuresAtK&);
};

constexpr Named kNamed[] = {
    {"P", "p", false, [](const MeasuresAtK& m) { return m.precision; }},
    {"nDCG", "ndcg", false, [](const MeasuresAtK& m) { return m.ndcg; }},
    {"recall", "recall", false, [](const MeasuresAtK& m) { return m.recall; }},
    {"F1", "f1", false, [](const MeasuresAtK& m) { return m.f1; }},
    {nullptr, "hit", false, [](const MeasuresAtK& m) { return m.hit_rate; }},
    {nullptr, "mrr", false, [](const MeasuresAtK& m) { return m.reciprocal_rank; }},
    {"micro F1", "micro_f1", false, [](const MeasuresAtK& m) { return m.over_labels.micro_f1; }},
    {"macro F1", "macro_f1", false, [](const MeasuresAtK& m) { return m.over_labels.macro_f1; }},
    {"coverage", "coverage", false, [](const MeasuresAtK& m) { return m.over_labels.coverage; }},
    {"PSP", "psp", true, [](const MeasuresAtK& m) { return m.propensity_precision; }},
    {"PSnDCG", "psndcg", true, [](const MeasuresAtK& m) { return m.propensity_ndcg; }},
};

std::string Row(const std::string& name, size_t columns,
                const std::function<double(size_t)>& fraction) {
  std::string row = fmt::format("{:<13}", name);
  for (size_t c = 0; c < columns; ++c) row += fmt::format("{:7.2f}", 100 * fraction(c));
  return row + "\n";
}

// "4 head labels (20 to 90 times)".
std::string ExtentText(Band band, const FrequencyBands::Extent& extent) {
  const char* name = kBandNames[static_cast<size_t>(band)];
  if (extent.labels == 0) return fmt::format("no {} labels", name);
  const std::string count = Plural(extent.labels, std::string(name) + " label");
  if (extent.fewest == extent.most)
    return fmt::format("{} ({})", count, Plural(extent.most, "time"));
  return fmt::format("{} ({} to {} times)", count, extent.fewest, extent.most);
}

std::string BandRows(const Measures& measures, const FrequencyBands& bands) {
  std::string rows;
  const size_t columns = measures.at.size();
  for (size_t b = 0; b < kBands; ++b) {
    const auto& values = (*measures.bands)[b].precision;
    rows += Row(fmt::format("P {}", kBandNames[b]), columns, [&](size_t c) { return values[c]; });
  }
  for (size_t b = 0; b < kBands; ++b) {
    const auto& values = (*measures.bands)[b].recall;
    rows +=
        Row(fmt::format("recall {}", kBandNames[b]), columns, [&](size_t c) { return values[c]; });
  }
  return rows + fmt::format("by training frequency: {}, {}, {}\n",
                            ExtentText(Band::kHead, bands.ExtentOf(Band::kHead)),
                            ExtentText(Band::kMiddle, bands.ExtentOf(Band::kMiddle)),
                            ExtentText(Band::kTail, bands.ExtentOf(Band::kTail)));
}

OrderedJson BandJson(const Measures& measures, const FrequencyBands& bands, size_t b) {
  const FrequencyBands::Extent& extent = bands.ExtentOf(static_cast<Band>(b));
  const BandMeasures& band = (*measures.bands)[b];
  OrderedJson json;
  json["train_labels"] = extent.labels;
  json["train_occurrences"] = extent.occurrences;
  json["train_count_min"] = extent.fewest;
  json["train_count_max"] = extent.most;
  json["occurrences"] = band.occurrences;
  for (size_t c = 0; c < measures.at.size(); ++c) {
    json[fmt::format("p_at_{}", measures.at[c].k)] = band.precision[c];
    json[fmt::format("recall_at_{}", measures.at[c].k)] = band.recall[c];
  }
  return json;
}

}  // namespace

std::string MeasureTable(const Measures& measures, const FrequencyBands& bands) {
  std::string table = fmt::format("{:<13}", "");
  for (const MeasuresAtK& m : measures.at) table += fmt::format("{:>7}", fmt::format("@{}", m.k));
  table += "\n";
  for (const Named& named : kNamed) {
    if (named.in_table == nullptr || (named.weighted && !measures.with_propensities)) continue;
    table += Row(named.in_table, measures.at.size(),
                 [&](size_t c) { return named.value(measures.at[c]); });
  }
  if (measures.bands) table += BandRows(measures, bands);
  return table;
}

std::string RareTable(const std::vector<RareMeasures>& columns) {
  std::string table = fmt::format("{:<13}", "rare");
  for (const RareMeasures& column : columns) table += fmt::format("{:7.2f}", column.rare);
  table += "\n";
  for (const Named& named : kNamed) {
    const bool unknown = named.weighted && !columns.front().measures.with_propensities;
    if (named.in_table == nullptr || unknown) continue;
    for (const uint32_t k : {1u, 5u}) {
      table += Row(fmt::format("{}@{}", named.in_table, k), columns.size(), [&](size_t c) {
        return named.value(*std::ranges::find(columns[c].measures.at, k, &MeasuresAtK::k));
      });
    }
  }
  return table;
}

OrderedJson MeasureJson(const Measures& measures, const FrequencyBands& bands) {
  OrderedJson json;
  for (const MeasuresAtK& m : measures.at) {
    for (const Named& named : kNamed) {
      if (named.weighted && !measures.with_propensities) continue;
      json[fmt::format("{}_at_{}", named.in_json, m.k)] = named.value(m);
    }
  }
  if (measures.bands) {
    for (size_t b = 0; b < kBands; ++b) {
      json["bands"][kBandNames[b]] = BandJson(measures, bands, b);
    }
  }
  json["samples"] = measures.samples;
  json["samples_without_labels"] = measures.samples_without_labels;
  json["labels_in_data"] = measures.labels_in_data;
  return json;
}

}  // namespace dslide
