// The tokens of lines: words of a text, or items of a session (text.format = words or sessions).
//
// Words are those of words.h, by their stems with text.stem. Items are what blanks separate, as it
// is written. The names of both, the most frequent first, are a model's features and its labels.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/data/text_stream.h"
#include "common/data/token_samples.h"
#include "common/stem/stemmer.h"
#include "common/text/records/unreadable.h"
#include "common/text/records/words.h"

namespace dslide {

// REQUIRES text.format = words or sessions.
TokenRules TokenRulesOf(const TextConfig& config);

// A thread's way to break lines up.
class TokenBreaker {
 public:
  explicit TokenBreaker(const TextConfig& config);

  // Calls take() with each token, in order, valid during the call. Text that is not UTF-8 is an
  // error, whose message lacks the place, and gives no token.
  Status ForEachToken(std::string_view line, const std::function<void(std::string_view)>& take);

 private:
  bool items_;
  WordBreaker breaker_;
  std::optional<Stemmer> stemmer_;
};

// A file of lines, of which the longest are cut at a blank: a text may be all one line.
Result<TextStream> OpenTokenFile(const std::string& path);

// The names that text.min_count and text.max_features choose of a file's tokens, the most frequent
// first. Memory is that of all different tokens. The same on any number of threads. Errors are
// kBadInput and name the file and the line.
Result<std::vector<std::string>> CountTokens(const std::string& path, const TextConfig& config,
                                             size_t threads);

// The id of a token; nullopt: it is left out.
using TokenNumberer = std::function<std::optional<uint32_t>(std::string_view)>;

struct ReadTokens {
  std::vector<uint32_t> ids;  // a line's, then TokenSamples::kLineEnd
  uint64_t left_out = 0;      // tokens without an id
  UnreadableRecords unreadable;
};

// The tokens of a file that have ids; lines without any are left out. Errors as above; more than
// 2^32 - 1 tokens and lines are one.
Result<ReadTokens> NumberTokens(const std::string& path, const TextConfig& config,
                                const TokenNumberer& id_of, size_t threads);

}  // namespace dslide
