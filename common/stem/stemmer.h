// Stems of words: "houses" and "house" have one.
//
// By the Snowball algorithms of a language (Porter: "Snowball: A language for stemming algorithms",
// 2001). libstemmer appears behind this file only. Another version of libstemmer may know other
// languages, and give other stems.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct sb_stemmer;

namespace dslide {

// In place of a language: words stay as they are.
inline constexpr std::string_view kNoStems = "off";

// The languages that the installed libstemmer knows: arabic, ..., english, ..., in its order.
const std::vector<std::string>& StemLanguages();

// Not thread-safe: each thread has its own.
class Stemmer {
 public:
  // A longer word is its own stem, so that a text without spaces takes time in proportion.
  static constexpr size_t kLongestWord = 256;  // bytes

  // REQUIRES a language of StemLanguages().
  explicit Stemmer(const std::string& language);

  // The stem of a word in UTF-8 and lower case; only that of an empty word is empty. Valid until
  // the next call, and as long as the word.
  std::string_view StemOf(std::string_view word);

 private:
  struct Delete {
    void operator()(sb_stemmer* stemmer) const;
  };
  std::unique_ptr<sb_stemmer, Delete> stemmer_;
};

}  // namespace dslide
