#include "tools/dslide/vectors/word_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "common/data/text_stream.h"

namespace dslide {
namespace {

std::vector<std::string> WordsOf(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string> words;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty()) return words;
    const size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

struct Question {
  uint32_t a, b, c, d;
  size_t section;
};

// Ranks from 1; equal values have the mean of theirs. REQUIRES finite values.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = (static_cast<double>(begin) + 1 + static_cast<double>(end)) / 2;
    for (; begin < end; ++begin) ranks[order[begin]] = rank;
  }
  return ranks;
}

}  // namespace

Result<AnalogyResult> AskAnalogies(const WordVectors& vectors, const std::string& path) {
  Result<TextStream> stream = TextStream::Open(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  AnalogyResult result;
  std::vector<Question> questions;
  while (true) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) break;
    const std::vector<std::string> words = WordsOf(**line);
    if (words.empty()) continue;
    if (words[0] == ":") {
      result.sections.push_back({words.size() > 1 ? words[1] : ""});
      continue;
    }
    if (words.size() != 4) return stream->BadLine("expected four words, or ': section'");
    if (result.sections.empty()) result.sections.push_back({});
    const auto a = vectors.Find(words[0]), b = vectors.Find(words[1]);
    const auto c = vectors.Find(words[2]), d = vectors.Find(words[3]);
    if (a && b && c && d) {
      questions.push_back({*a, *b, *c, *d, result.sections.size() - 1});
    } else {
      ++result.left_out;
    }
  }
  std::vector<std::vector<float>> queries;
  std::vector<std::vector<uint32_t>> excluded;
  for (const Question& q : questions) {
    queries.push_back(vectors.Analogy(q.a, q.b, q.c));
    excluded.push_back({q.a, q.b, q.c});
  }
  const auto nearest = vectors.Nearest(queries, 1, excluded);
  for (size_t q = 0; q < questions.size(); ++q) {
    AnalogyScore& score = result.sections[questions[q].section];
    ++score.asked;
    score.right += !nearest[q].empty() && nearest[q][0].id == questions[q].d;
  }
  return result;
}

Result<SimilarityResult> ComparePairs(const WordVectors& vectors, const std::string& path) {
  Result<TextStream> stream = TextStream::Open(path);
  DSLIDE_RETURN_IF_ERROR(stream);
  SimilarityResult result;
  std::vector<double> cosines, judgements;
  while (true) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) break;
    const std::vector<std::string> words = WordsOf(**line);
    if (words.empty() || words[0].starts_with('#')) continue;
    double judgement = 0;
    const std::string number = words.size() == 3 ? words[2] : "";
    const auto read = std::from_chars(number.data(), number.data() + number.size(), judgement);
    if (number.empty() || read.ec != std::errc() || read.ptr != number.data() + number.size() ||
        !std::isfinite(judgement)) {
      return stream->BadLine("expected two words and a number");
    }
    const auto a = vectors.Find(words[0]), b = vectors.Find(words[1]);
    const double cosine = a && b ? double{vectors.Cosine(*a, *b)} : NAN;
    if (!std::isfinite(cosine)) {
      ++result.left_out;
      continue;
    }
    ++result.pairs;
    cosines.push_back(cosine);
    judgements.push_back(judgement);
  }
  result.spearman = Spearman(cosines, judgements);
  return result;
}

double Spearman(const std::vector<double>& x, const std::vector<double>& y) {
  const std::vector<double> a = RanksOf(x), b = RanksOf(y);
  const double mean = (static_cast<double>(a.size()) + 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

}  // namespace dslide
