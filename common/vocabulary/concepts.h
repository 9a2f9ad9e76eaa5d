// Concepts as the file of a vocabulary has them, with the names of all languages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/text/vocabulary/vocabulary.h"

namespace dslide {

// The kinds of names, in the order in which a concept has them.
enum class NameKind : uint8_t { kPreferred, kSynonym, kHidden };

struct TaggedName {
  std::string text;
  uint32_t language = 0;  // of Concepts::languages
  NameKind kind = NameKind::kPreferred;
};

struct RawConcept {
  std::string id;
  std::vector<TaggedName> names;
  bool is_deprecated = false;
};

struct Concepts {
  static constexpr uint32_t kUntagged = 0;

  std::vector<RawConcept> all;
  std::vector<std::string> languages = {""};  // tags in lower case, as "en" or "en-gb"

  // The number of a tag, in any case.
  uint32_t LanguageOf(std::string tag);
};

// Whether some name is in the language, a variant of it, or no language.
bool HasLanguage(const Concepts& concepts, const std::string& language);
// "de (120 names), en (5 names)".
std::string LanguageList(const Concepts& concepts);

// The vocabulary in one language: a BCP 47 tag as "de"; "": the one with most preferred names. A
// concept's names of each kind are those of that language, else those without a language, else
// those of a variant of it. Deprecated concepts are left out. *notes: lines for people on what was
// left out.
Vocabulary InLanguage(Concepts concepts, const std::string& language,
                      std::vector<std::string>* notes);

}  // namespace dslide
