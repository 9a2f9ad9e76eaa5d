#include "common/text/records/first_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "common/base/nearest.h"
#include "common/base/plural.h"

namespace dslide {
namespace {

constexpr size_t kShownBytes = 60;  // of a text or a label
constexpr size_t kShownLabels = 5;
constexpr size_t kShownFeatures = 5;
constexpr uint64_t kLeastEntries = 10;  // labels needed for a warning
constexpr std::array<const char*, FirstLook::kSamples> kNames = {"first", "second"};

std::string Shortened(std::string_view text) { return Printable(text, kShownBytes); }

std::string TextOf(const std::vector<std::string>& fields) {
  if (fields.empty()) return "no text";
  const std::string_view rest = fields.size() > 1 ? fields[1] : fields[0];
  const std::string text = fmt::format("text '{}'", rest.empty() ? "" : Shortened(rest));
  return fields.size() > 1 ? fmt::format("title '{}', {}", Shortened(fields[0]), text) : text;
}

std::string LabelsOf(const std::vector<std::string>& labels) {
  if (labels.empty()) return "no label";
  std::string text = labels.size() == 1 ? "label " : "labels ";
  for (size_t i = 0; i < std::min(labels.size(), kShownLabels); ++i) {
    text += (i == 0 ? "" : " | ") + Shortened(labels[i]);
  }
  if (labels.size() > kShownLabels) text += fmt::format(" | {} more", labels.size() - kShownLabels);
  return text;
}

// Identifiers of libraries, which are longer than titles.
bool IsAddress(std::string_view label) { return label.find("://") != std::string_view::npos; }

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Whether a sample has the names of columns for text and labels.
bool IsHeader(const std::vector<std::string>& fields, const std::vector<std::string>& labels) {
  static const std::unordered_set<std::string> texts = {
      "text",     "texts",    "title",    "titles",      "body",     "content",
      "sentence", "document", "abstract", "description", "question", "review",
      "comment",  "message",  "query",    "headline",    "tweet"};
  static const std::unordered_set<std::string> names = {
      "label",   "labels",   "class",        "classes", "category", "categories", "tag",    "tags",
      "subject", "subjects", "subject_uris", "target",  "topic",    "topics",     "intent", "y"};
  return fields.size() == 1 && texts.contains(LowerCase(fields[0])) && !labels.empty() &&
         std::ranges::all_of(labels,
                             [](const std::string& l) { return names.contains(LowerCase(l)); });
}

struct Separated {
  char separator;
  size_t parts;  // different parts
};
// The separator in most names, if they look like several names in one. A single name may contain a
// comma too, so the parts between commas must also occur in other names.
std::optional<Separated> SeparatedNames(std::span<const std::string> names) {
  for (const char separator : {';', '|', ','}) {
    size_t with = 0;
    std::unordered_set<std::string> parts;
    for (const std::string& name : names) {
      if (separator == ',' && IsAddress(name)) continue;
      with += name.find(separator) != std::string::npos ? 1 : 0;
      for (size_t begin = 0; begin <= name.size();) {
        const size_t end = std::min(name.find(separator, begin), name.size());
        std::string_view part = std::string_view(name).substr(begin, end - begin);
        while (part.starts_with(' ')) part.remove_prefix(1);
        while (part.ends_with(' ')) part.remove_suffix(1);
        if (!part.empty()) parts.emplace(part);
        begin = end + 1;
      }
    }
    if (2 * with <= names.size()) continue;
    if (separator == ',' && parts.size() >= names.size()) continue;
    return Separated{separator, parts.size()};
  }
  return std::nullopt;
}

double Mean(uint64_t sum, uint64_t count) {
  return static_cast<double>(sum) / static_cast<double>(std::max<uint64_t>(count, 1));
}

}  // namespace

std::string WithoutLabels(uint64_t without, uint64_t samples) {
  return fmt::format("{} of {} have no label", without, Plural(samples, "sample"));
}

std::string SampleLine(size_t i, const SampleView& sample) {
  std::string features = Plural(sample.features.size(), "feature");
  for (size_t f = 0; f < std::min(sample.features.size(), kShownFeatures); ++f) {
    features += fmt::format("{} {}:{:g}", f == 0 ? "," : "", sample.features[f], sample.values[f]);
  }
  if (sample.features.size() > kShownFeatures) features += " ...";
  std::vector<std::string> labels;
  for (const uint32_t label : sample.labels) labels.push_back(std::to_string(label));
  return fmt::format("{} sample: {}, {}", kNames[i], features, LabelsOf(labels));
}

void FirstLook::Add(const Record& record) {
  if (shown_.size() < kSamples) shown_.push_back({record.fields, record.labels});
  ++samples_;
  if (!record.near_key.empty() && ++near_keys_ == 1) near_key_ = record.near_key;
  if (record.labels.empty()) return;
  ++labelled_;
  entries_ += record.labels.size();
  for (const std::string& field : record.fields) text_bytes_ += field.size();
  for (const std::string& label : record.labels)
    label_bytes_ += IsAddress(label) ? 0 : label.size();
}

void FirstLook::Append(const FirstLook& later) {
  for (const Shown& shown : later.shown_) {
    if (shown_.size() < kSamples) shown_.push_back(shown);
  }
  if (near_keys_ == 0) near_key_ = later.near_key_;
  near_keys_ += later.near_keys_;
  samples_ += later.samples_;
  labelled_ += later.labelled_;
  entries_ += later.entries_;
  text_bytes_ += later.text_bytes_;
  label_bytes_ += later.label_bytes_;
}

std::vector<std::string> FirstLook::SampleLines() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < shown_.size(); ++i) {
    lines.push_back(fmt::format("{} sample: {}, {}", kNames[i], TextOf(shown_[i].fields),
                                LabelsOf(shown_[i].labels)));
  }
  return lines;
}

std::string FirstLook::WithoutLabels() const {
  if (without_labels() == 0) return "";
  const std::string line = dslide::WithoutLabels(without_labels(), samples_);
  const std::string key = KeyInPlaceOfLabels();
  return key.empty() ? line : line + "; " + key;
}

std::string FirstLook::KeyInPlaceOfLabels() const {
  if (near_keys_ == 0) return "";
  return fmt::format("{} of them have \"{}\" where \"labels\" is expected", near_keys_,
                     Printable(near_key_));
}

std::vector<std::string> FirstLook::Warnings(std::span<const std::string> label_names) const {
  std::vector<std::string> warnings;
  if (without_labels() > 0) warnings.push_back(WithoutLabels());
  if (!shown_.empty() && IsHeader(shown_[0].fields, shown_[0].labels)) {
    warnings.push_back(
        fmt::format("the first line looks like a header, but was read as a sample with {}; "
                    "remove it (tail -n +2)",
                    LabelsOf(shown_[0].labels)));
  }
  if (entries_ < kLeastEntries) return warnings;
  if (10 * label_names.size() >= 9 * entries_) {
    warnings.push_back(fmt::format(
        "{} in {} with labels: hardly any label occurs twice, so nothing can be learned from them; "
        "are texts and labels swapped?",
        Plural(label_names.size(), "label"), Plural(labelled_, "sample")));
  }
  const double label = Mean(label_bytes_, entries_), text = Mean(text_bytes_, labelled_);
  if (label > text) {
    warnings.push_back(
        fmt::format("labels are longer than texts ({:.0f} and {:.0f} bytes on average); are they "
                    "swapped?",
                    label, text));
  }
  if (const std::optional<Separated> found = SeparatedNames(label_names)) {
    const auto has_it = [&](const std::string& name) {
      return name.find(found->separator) != std::string::npos;
    };
    warnings.push_back(fmt::format(
        "most labels have '{}' in them ('{}'): each was read as one label, {} in all; "
        "separated, there are {} (--fields 'separator:{}', text.fields)",
        found->separator, Shortened(*std::ranges::find_if(label_names, has_it)), label_names.size(),
        found->parts, found->separator == ',' ? "comma" : std::string(1, found->separator)));
  }
  return warnings;
}

}  // namespace dslide
