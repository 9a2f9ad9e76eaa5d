#include "common/stem/stemmer.h"

#include <libstemmer.h>

#include "common/base/check.h"

namespace dslide {

const std::vector<std::string>& StemLanguages() {
  static const std::vector<std::string> languages = [] {
    std::vector<std::string> names;
    for (const char** name = sb_stemmer_list(); *name != nullptr; ++name) names.emplace_back(*name);
    return names;
  }();
  return languages;
}

void Stemmer::Delete::operator()(sb_stemmer* stemmer) const { sb_stemmer_delete(stemmer); }

Stemmer::Stemmer(const std::string& language)
    : stemmer_(sb_stemmer_new(language.c_str(), "UTF_8")) {
  DSLIDE_CHECK(stemmer_ != nullptr);
}

std::string_view Stemmer::StemOf(std::string_view word) {
  if (word.size() > kLongestWord) return word;
  const sb_symbol* stem =
      sb_stemmer_stem(stemmer_.get(), reinterpret_cast<const sb_symbol*>(word.data()),
                      static_cast<int>(word.size()));
  const int size = stem == nullptr ? 0 : sb_stemmer_length(stemmer_.get());
  if (size == 0) return word;  // all of it is a suffix, or memory is short
  return {reinterpret_cast<const char*>(stem), static_cast<size_t>(size)};
}

}  // namespace dslide
