// The words of a text: maximal runs of Unicode letters, digits and the marks on them, in lower
// case.
//
// Words of scripts that are written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese)
// are found by ICU's dictionaries (Unicode Standard Annex 29). Text that is no valid UTF-8 is no
// error: what cannot be decoded separates words. Composed and decomposed letters are the same
// (normalisation form C). ICU appears behind this file only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace dslide {

bool IsUtf8(std::string_view text);

// Not thread-safe: each thread has its own.
class WordBreaker {
 public:
  // `fold_accents`: letters lose their accents ("é" is "e").
  explicit WordBreaker(bool fold_accents);
  WordBreaker(WordBreaker&&) noexcept;
  ~WordBreaker();

  // Calls take() with each word, in order. A word is valid during the call.
  void ForEachWord(std::string_view text, const std::function<void(std::string_view)>& take);

 private:
  class Dictionary;

  // Text in normalisation form C, or without accents.
  std::string_view Normalised(std::string_view text);

  bool fold_accents_;
  std::unique_ptr<Dictionary> dictionary_;  // made when the first word needs it
  std::string normalised_;
  std::string word_;
};

}  // namespace dslide
