// Finds the bytes of a CSV record that are between quotes (RFC 4180). A quote at the beginning of a
// cell opens quoted text. In it, two quotes stand for one, and a single quote closes it. Any other
// quote is text.
#pragma once

#include <string_view>

namespace dslide {

class CsvQuotes {
 public:
  enum class Byte { kText, kQuote, kSeparator };

  explicit CsvQuotes(char separator) : separator_(separator) {}

  // Classifies the next byte of the record. A byte of kind kQuote is not part of the text.
  Byte Next(char c) {
    switch (state_) {
      case State::kBegin:
      case State::kPlain:
        if (c == '"' && state_ == State::kBegin) return Become(State::kQuoted, Byte::kQuote);
        break;
      case State::kQuoted:
        return c == '"' ? Become(State::kClosed, Byte::kQuote) : Byte::kText;
      case State::kClosed:
        if (c == '"') return Become(State::kQuoted, Byte::kText);
        break;
    }
    if (c == separator_) return Become(State::kBegin, Byte::kSeparator);
    return Become(State::kPlain, Byte::kText);
  }
  void Feed(std::string_view bytes) {
    for (const char c : bytes) Next(c);
  }

  // Whether a line end here belongs to the record.
  bool is_open() const { return state_ == State::kQuoted; }

 private:
  enum class State { kBegin, kPlain, kQuoted, kClosed };
  Byte Become(State state, Byte byte) {
    state_ = state;
    return byte;
  }

  char separator_;
  State state_ = State::kBegin;
};

}  // namespace dslide
