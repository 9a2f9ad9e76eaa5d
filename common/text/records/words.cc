#include "common/text/records/words.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>

namespace dslide {
namespace {

constexpr int32_t kAscii = 128;

// The lower-case letter or the digit, 0 for what separates words.
constexpr std::array<char, kAscii> kAsciiWord = [] {
  std::array<char, kAscii> table{};
  for (char c = '0'; c <= '9'; ++c) table[static_cast<size_t>(c)] = c;
  for (char c = 'a'; c <= 'z'; ++c) table[static_cast<size_t>(c)] = c;
  for (char c = 'A'; c <= 'Z'; ++c) table[static_cast<size_t>(c)] = static_cast<char>(c + 32);
  return table;
}();

bool IsMark(UChar32 c) { return (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0; }

// Scripts whose words no space separates.
bool NeedsDictionary(UChar32 c) {
  if (c < 0x0e00) return false;
  return u_getIntPropertyValue(c, UCHAR_LINE_BREAK) == U_LB_COMPLEX_CONTEXT ||
         u_hasBinaryProperty(c, UCHAR_IDEOGRAPHIC) || (c >= 0x3040 && c <= 0x30ff);
}

void Append(UChar32 c, std::string* word) {
  char bytes[U8_MAX_LENGTH];
  int32_t length = 0;
  U8_APPEND_UNSAFE(bytes, length, c);
  word->append(bytes, static_cast<size_t>(length));
}

}  // namespace

bool IsUtf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto size = static_cast<int32_t>(text.size());
  for (int32_t at = 0; at < size;) {
    UChar32 c;
    U8_NEXT(bytes, at, size, c);
    if (c < 0) return false;
  }
  return true;
}

// Words of a run of text without spaces.
class WordBreaker::Dictionary {
 public:
  Dictionary() {
    UErrorCode error = U_ZERO_ERROR;
    breaker_.reset(icu::BreakIterator::createWordInstance(icu::Locale::getRoot(), error));
    if (U_FAILURE(error)) breaker_.reset();
  }

  void ForEachWord(const std::string& run, const std::function<void(std::string_view)>& take) {
    if (breaker_ == nullptr) return take(run);  // ICU lacks its data
    const icu::UnicodeString text = icu::UnicodeString::fromUTF8(run);
    breaker_->setText(text);
    std::string word;
    for (int32_t begin = breaker_->first(), end = breaker_->next(); end != icu::BreakIterator::DONE;
         begin = end, end = breaker_->next()) {
      if (breaker_->getRuleStatus() < UBRK_WORD_NONE_LIMIT) continue;
      word.clear();
      text.tempSubStringBetween(begin, end).toUTF8String(word);
      take(word);
    }
  }

 private:
  std::unique_ptr<icu::BreakIterator> breaker_;
};

WordBreaker::WordBreaker(bool fold_accents) : fold_accents_(fold_accents) {}
WordBreaker::WordBreaker(WordBreaker&&) noexcept = default;
WordBreaker::~WordBreaker() = default;

std::string_view WordBreaker::Normalised(std::string_view text) {
  // ASCII is what it will be; below U+0300 nothing is decomposed.
  const auto needs_work = [&](unsigned char byte) {
    return fold_accents_ ? byte >= 0x80 : byte >= 0xcc;
  };
  if (std::find_if(text.begin(), text.end(), [&](char c) {
        return needs_work(static_cast<unsigned char>(c));
      }) == text.end()) {
    return text;
  }
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* form = fold_accents_ ? icu::Normalizer2::getNFKDInstance(error)
                                               : icu::Normalizer2::getNFCInstance(error);
  if (U_FAILURE(error)) return text;
  normalised_.clear();
  icu::StringByteSink<std::string> sink(&normalised_);
  form->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                      nullptr, error);
  return U_FAILURE(error) ? text : std::string_view(normalised_);
}

void WordBreaker::ForEachWord(std::string_view text,
                              const std::function<void(std::string_view)>& take) {
  text = Normalised(text);
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto size = static_cast<int32_t>(text.size());
  bool needs_dictionary = false;
  const auto end_word = [&] {
    if (word_.empty()) return;
    if (needs_dictionary) {
      if (dictionary_ == nullptr) dictionary_ = std::make_unique<Dictionary>();
      dictionary_->ForEachWord(word_, take);
    } else {
      take(word_);
    }
    word_.clear();
    needs_dictionary = false;
  };
  word_.clear();
  for (int32_t at = 0; at < size;) {
    if (bytes[at] < kAscii) {
      const char c = kAsciiWord[bytes[at++]];
      if (c != 0) {
        word_.push_back(c);
      } else {
        end_word();
      }
      continue;
    }
    UChar32 c;
    U8_NEXT(bytes, at, size, c);  // negative: no UTF-8
    if (c >= 0 && u_isalnum(c)) {
      needs_dictionary |= NeedsDictionary(c);
      Append(u_tolower(c), &word_);
    } else if (c >= 0 && !word_.empty() && IsMark(c)) {
      if (!fold_accents_) Append(c, &word_);
    } else {
      end_word();
    }
  }
  end_word();
}

}  // namespace dslide
