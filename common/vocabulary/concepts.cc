#include "common/vocabulary/concepts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "common/base/plural.h"

namespace dslide {
namespace {

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string_view Primary(std::string_view tag) { return tag.substr(0, tag.find_first_of("-_")); }

// How well each language of a file fits the asked one; lower is better.
enum Fit : uint8_t { kSame, kUntagged, kVariant, kOther };

std::vector<Fit> FitsOf(const std::vector<std::string>& languages, const std::string& asked) {
  std::vector<Fit> fits;
  for (const std::string& language : languages) {
    fits.push_back(language.empty()                      ? kUntagged
                   : language == asked                   ? kSame
                   : Primary(language) == Primary(asked) ? kVariant
                                                         : kOther);
  }
  return fits;
}

// [languages] concepts that are not deprecated and have a preferred name in the language.
std::vector<uint64_t> CountPreferred(const Concepts& concepts) {
  std::vector<uint64_t> counts(concepts.languages.size());
  for (const RawConcept& raw : concepts.all) {
    for (const TaggedName& name : raw.names) {
      if (name.kind == NameKind::kPreferred && !raw.is_deprecated) ++counts[name.language];
    }
  }
  return counts;
}

// The line on a language that was chosen, or lacks concepts.
std::string LanguageNote(const Concepts& concepts, const std::vector<uint64_t>& counts,
                         const std::string& asked, const std::string& chosen) {
  std::string others;
  for (size_t i = 1; i < counts.size(); ++i) {
    if (counts[i] == 0 || concepts.languages[i] == chosen) continue;
    others +=
        fmt::format("{}{} ({})", others.empty() ? "" : ", ", concepts.languages[i], counts[i]);
  }
  if (others.empty()) return "";
  return fmt::format("names are in {}{}; the vocabulary has {} too",
                     chosen.empty() ? "no language" : chosen,
                     asked.empty() ? " (labels.language names another one)" : "", others);
}

// A concept's names in a language, the preferred one first, each once. The names of each kind are
// in the language that fits best among them.
std::vector<std::string> NamesIn(const std::vector<Fit>& fits, const RawConcept& raw) {
  std::vector<std::string> chosen;
  for (const NameKind kind : {NameKind::kPreferred, NameKind::kSynonym, NameKind::kHidden}) {
    Fit best = kOther;
    for (const TaggedName& name : raw.names) {
      if (name.kind == kind) best = std::min(best, fits[name.language]);
    }
    for (const TaggedName& name : raw.names) {
      const bool fits_best = name.kind == kind && best != kOther && fits[name.language] == best;
      if (fits_best && std::ranges::count(chosen, name.text) == 0) chosen.push_back(name.text);
    }
  }
  return chosen;
}

// [languages] all names.
std::vector<uint64_t> CountNames(const Concepts& concepts) {
  std::vector<uint64_t> counts(concepts.languages.size());
  for (const RawConcept& raw : concepts.all) {
    for (const TaggedName& name : raw.names) ++counts[name.language];
  }
  return counts;
}

}  // namespace

uint32_t Concepts::LanguageOf(std::string tag) {
  tag = Lower(std::move(tag));
  const auto found = std::ranges::find(languages, tag);
  const auto number = static_cast<uint32_t>(found - languages.begin());
  if (found == languages.end()) languages.push_back(std::move(tag));
  return number;
}

bool HasLanguage(const Concepts& concepts, const std::string& language) {
  const std::vector<Fit> fits = FitsOf(concepts.languages, Lower(language));
  const std::vector<uint64_t> counts = CountNames(concepts);
  for (size_t i = 0; i < fits.size(); ++i) {
    if (fits[i] != kOther && counts[i] > 0) return true;
  }
  return false;
}

std::string LanguageList(const Concepts& concepts) {
  const std::vector<uint64_t> counts = CountNames(concepts);
  std::string list;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", concepts.languages[i],
                        Plural(counts[i], "name"));
  }
  return list;
}

Vocabulary InLanguage(Concepts concepts, const std::string& language,
                      std::vector<std::string>* notes) {
  std::vector<uint64_t> counts = CountPreferred(concepts);
  if (std::ranges::count(counts, 0u) == std::ssize(counts)) counts = CountNames(concepts);
  const std::string asked = Lower(language);
  const auto most = static_cast<size_t>(std::ranges::max_element(counts) - counts.begin());
  const std::string chosen = asked.empty() ? concepts.languages[most] : asked;
  const std::vector<Fit> fits = FitsOf(concepts.languages, chosen);
  if (std::string note = LanguageNote(concepts, counts, asked, chosen); !note.empty()) {
    notes->push_back(std::move(note));
  }
  std::vector<std::string> ids, names;
  std::vector<uint32_t> owners;
  uint64_t deprecated = 0, nameless = 0;
  for (RawConcept& raw : concepts.all) {
    if (raw.is_deprecated) {
      ++deprecated;
      continue;
    }
    std::vector<std::string> own = NamesIn(fits, raw);
    nameless += own.empty();
    for (std::string& name : own) {
      names.push_back(std::move(name));
      owners.push_back(static_cast<uint32_t>(ids.size()));
    }
    ids.push_back(std::move(raw.id));
    raw = {};
  }
  if (deprecated > 0) {
    notes->push_back(fmt::format(
        "{} left out", Plural(deprecated, "deprecated concept is", "deprecated concepts are")));
  }
  if (nameless > 0) {
    notes->push_back(fmt::format("{} no name{}, and {} shown by a part of the identifier",
                                 Plural(nameless, "concept has", "concepts have"),
                                 chosen.empty() ? "" : " in " + chosen,
                                 nameless == 1 ? "is" : "are"));
  }
  return Vocabulary(std::move(ids), std::move(names), std::move(owners));
}

}  // namespace dslide
