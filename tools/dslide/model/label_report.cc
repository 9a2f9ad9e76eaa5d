#include "tools/dslide/model/label_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "common/base/plural.h"
#include "common/data/measures/ranking_terms.h"

namespace dslide {
namespace {

constexpr size_t kShownLabels = 10;
constexpr uint32_t kMinShownSupport = 5;  // lowered if no label has as many samples

std::string NameOf(uint32_t label, const LabelNamer& name_of) {
  return name_of ? name_of(label) : std::to_string(label);
}

std::string Escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    switch (c) {
      case '\\':
        text += "\\\\";
        break;
      case '\t':
        text += "\\t";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\r':
        text += "\\r";
        break;
      default:
        text += c;
    }
  }
  return text;
}

std::string Number(std::optional<double> value) {
  return value ? fmt::format("{:.6g}", *value) : "";
}

std::string Percent(std::optional<double> value) {
  return value ? fmt::format("{:.2f}", 100 * *value) : "-";
}

std::string TsvLine(const LabelRow& row, const LabelNamer& name_of) {
  std::string line = fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}", Escaped(NameOf(row.label, name_of)),
                                 row.support, row.predicted, row.hits, Number(row.Precision()),
                                 Number(row.Recall()), Number(row.F1()));
  for (size_t c = 0; c < kMaxConfusions; ++c) {
    line += c < row.confusions.size()
                ? fmt::format("\t{}\t{}", Escaped(NameOf(row.confusions[c].label, name_of)),
                              row.confusions[c].samples)
                : "\t\t";
  }
  return line + "\n";
}

}  // namespace

std::optional<double> LabelRow::Precision() const {
  if (predicted == 0) return std::nullopt;
  return static_cast<double>(hits) / predicted;
}

std::optional<double> LabelRow::Recall() const {
  if (support == 0) return std::nullopt;
  return static_cast<double>(hits) / support;
}

double LabelRow::F1() const {
  return 2.0 * hits / (static_cast<double>(support) + static_cast<double>(predicted));
}

void LabelReport::Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels) {
  const std::span<const uint32_t> predicted = ranked.first(std::min<size_t>(k_, ranked.size()));
  std::vector<uint32_t> wrong;
  for (const uint32_t label : predicted) {
    Counts& counts = counts_[label];
    ++counts.predicted;
    Contains(labels, label) ? void(++counts.hits) : wrong.push_back(label);
  }
  for (const uint32_t label : labels) {
    ++counts_[label].support;
    if (std::ranges::find(predicted, label) != predicted.end()) continue;
    for (const uint32_t other : wrong) ++confusions_[uint64_t{label} << 32 | other];
  }
}

std::vector<LabelRow> LabelReport::Rows() const {
  std::unordered_map<uint32_t, std::vector<Confusion>> confusions;
  for (const auto& [pair, samples] : confusions_) {
    confusions[static_cast<uint32_t>(pair >> 32)].push_back({static_cast<uint32_t>(pair), samples});
  }
  std::vector<LabelRow> rows;
  for (const auto& [label, counts] : counts_) {
    std::vector<Confusion>& own = confusions[label];
    std::ranges::sort(own, [](const Confusion& a, const Confusion& b) {
      return std::tuple(b.samples, a.label) < std::tuple(a.samples, b.label);
    });
    own.resize(std::min(own.size(), kMaxConfusions));
    rows.push_back({label, counts.support, counts.predicted, counts.hits, std::move(own)});
  }
  std::ranges::sort(rows, [](const LabelRow& a, const LabelRow& b) {
    return std::tuple(b.support, a.label) < std::tuple(a.support, b.label);
  });
  return rows;
}

void WriteLabelRows(uint32_t k, std::span<const LabelRow> rows, const LabelNamer& name_of,
                    OutputFile* out) {
  std::string header =
      fmt::format("label\tsupport\tpredicted\thits\tprecision_at_{0}\trecall_at_{0}\tf1_at_{0}", k);
  for (size_t c = 1; c <= kMaxConfusions; ++c) {
    header += fmt::format("\tconfusion_{0}\tconfusion_{0}_samples", c);
  }
  out->Write(header + "\n");
  for (const LabelRow& row : rows) out->Write(TsvLine(row, name_of));
}

std::string WorstLabels(uint32_t k, std::span<const LabelRow> rows, const LabelNamer& name_of) {
  std::vector<const LabelRow*> shown;
  uint64_t labels = 0, missed = 0;
  uint32_t most = 0;
  for (const LabelRow& row : rows) most = std::max(most, row.support);
  const uint32_t least = std::min(kMinShownSupport, std::max(most, 1u));
  for (const LabelRow& row : rows) {
    labels += row.support > 0 ? 1 : 0;
    missed += row.support > 0 && row.hits == 0 ? 1 : 0;
    if (row.support >= least) shown.push_back(&row);
  }
  if (shown.empty()) return "";
  std::ranges::sort(shown, [](const LabelRow* a, const LabelRow* b) {
    return std::tuple(a->F1(), b->support, a->label) < std::tuple(b->F1(), a->support, b->label);
  });
  std::string text = fmt::format(
      "labels, each predicted where it is among a sample's first {} (--top-k): {} in the data, {} "
      "of them never found\nthe worst by F1 of {} with {} or more:\n"
      "  samples  precision   recall       F1  label (predicted in its place)\n",
      k, labels, missed, Plural(shown.size(), "label"), Plural(least, "sample"));
  for (const LabelRow* row : std::span(shown).first(std::min(kShownLabels, shown.size()))) {
    text += fmt::format("{:9}  {:>9}  {:>7}  {:>7}  {}", row->support, Percent(row->Precision()),
                        Percent(row->Recall()), Percent(row->F1()), NameOf(row->label, name_of));
    for (const Confusion& c : row->confusions) {
      text += fmt::format("{}{} {}", &c == row->confusions.data() ? " (" : ", ",
                          NameOf(c.label, name_of), c.samples);
    }
    text += row->confusions.empty() ? "\n" : ")\n";
  }
  return text;
}

}  // namespace dslide
