// dslide neighbours: which words, or items of sessions, have similar vectors.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/app/executable.h"
#include "tools/dslide/model/model_argument.h"
#include "tools/dslide/model/model_source.h"
#include "tools/dslide/vectors/vector_commands.h"
#include "tools/dslide/vectors/word_tests.h"
#include "tools/dslide/vectors/word_vectors.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostWords = 1000;

double Percent(uint64_t part, uint64_t all) {
  return all == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(all);
}

// What is asked for in words, and its answers.
struct Asked {
  std::vector<std::string> titles;
  std::vector<std::vector<float>> queries;
  std::vector<std::vector<uint32_t>> excluded;
};

Result<Asked> AskedOf(const WordVectors& vectors, std::span<const std::string> words,
                      bool analogy) {
  std::vector<uint32_t> ids;
  for (const std::string& word : words) {
    const Result<uint32_t> id = vectors.Get(word);
    DSLIDE_RETURN_IF_ERROR(id);
    ids.push_back(*id);
  }
  Asked asked;
  if (analogy) {
    asked.titles = {fmt::format("{} is to {} as {} is to", words[0], words[1], words[2])};
    asked.queries = {vectors.Analogy(ids[0], ids[1], ids[2])};
    asked.excluded = {ids};
    return asked;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    asked.titles.push_back(words[i]);
    const auto unit = vectors.Unit(ids[i]);
    asked.queries.emplace_back(unit.begin(), unit.end());
    asked.excluded.push_back({ids[i]});
  }
  return asked;
}

// A line of JSON. Bytes that are not UTF-8 are replaced.
void PrintLine(const Json& line) {
  fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void Print(const WordVectors& vectors, const Asked& asked, uint32_t k, bool json) {
  const auto nearest = vectors.Nearest(asked.queries, k, asked.excluded);
  for (size_t q = 0; q < nearest.size(); ++q) {
    if (!json) fmt::print("{}\n", asked.titles[q]);
    Json names = Json::array(), cosines = Json::array();
    for (const Neighbour& n : nearest[q]) {
      names.push_back(vectors.names()[n.id]);
      cosines.push_back(n.cosine);
      if (!json) fmt::print("  {:.3f}  {}\n", n.cosine, vectors.names()[n.id]);
    }
    if (json) {
      PrintLine({{"word", asked.titles[q]},
                 {"neighbours", std::move(names)},
                 {"cosines", std::move(cosines)}});
    }
  }
}

Status PrintAnalogies(const WordVectors& vectors, const std::string& path, bool json) {
  const Result<AnalogyResult> result = AskAnalogies(vectors, path);
  DSLIDE_RETURN_IF_ERROR(result);
  AnalogyScore all;
  Json sections = Json::array();
  for (const AnalogyScore& section : result->sections) {
    sections.push_back(
        {{"section", section.section}, {"asked", section.asked}, {"right", section.right}});
    all.asked += section.asked;
    all.right += section.right;
    if (json) continue;
    fmt::print("{:<28} {:6.2f} % of {}\n", section.section, Percent(section.right, section.asked),
               section.asked);
  }
  if (json) {
    PrintLine({{"questions", path},
               {"asked", all.asked},
               {"right", all.right},
               {"left_out", result->left_out},
               {"sections", std::move(sections)}});
    return {};
  }
  fmt::print("{:<28} {:6.2f} % of {}; {} have words that the model lacks\n", "all analogies",
             Percent(all.right, all.asked), all.asked, result->left_out);
  return {};
}

Status PrintPairs(const WordVectors& vectors, const std::string& path, bool json) {
  const Result<SimilarityResult> result = ComparePairs(vectors, path);
  DSLIDE_RETURN_IF_ERROR(result);
  if (json) {
    PrintLine({{"pairs", path},
               {"compared", result->pairs},
               {"left_out", result->left_out},
               {"rank_correlation", result->spearman}});
    return {};
  }
  fmt::print(
      "{:<28} {:6.2f} rank correlation (x 100) of {}; {} have words that the model lacks or has no "
      "numbers for\n",
      "pairs", 100 * result->spearman, result->pairs, result->left_out);
  return {};
}

Status Neighbours(const ParsedArguments& arguments) {
  const Result<NamedModel> named = ModelFrom(arguments, kMostWords);
  DSLIDE_RETURN_IF_ERROR(named);
  const std::span<const std::string> words = named->more;
  const bool analogy = arguments.Has("analogy");
  const std::string questions = arguments.Get("questions"), pairs = arguments.Get("pairs");
  if (analogy && words.size() != 3) return BadInput("--analogy: expected three words");
  if (words.empty() && questions.empty() && pairs.empty()) {
    return BadInput("expected a word, --questions or --pairs");
  }
  const Result<uint32_t> k = arguments.Number("top-k", 1, 1000);
  DSLIDE_RETURN_IF_ERROR(k);
  ModelSourceOptions options;
  options.index = false;
  const auto model = LoadModel(named->path, options);
  DSLIDE_RETURN_IF_ERROR(model);
  DSLIDE_RETURN_IF_ERROR((*model)->Check((*model)->arrays().input));
  Result<WordVectors> vectors = WordVectors::Of(*model);
  if (!vectors.ok()) {
    return BadInput(fmt::format("{}: {}", named->path, vectors.error().message));
  }
  const Result<Asked> asked = AskedOf(*vectors, words, analogy);
  DSLIDE_RETURN_IF_ERROR(asked);
  const bool json = arguments.Has("json");
  Print(*vectors, *asked, *k, json);
  if (!questions.empty()) DSLIDE_RETURN_IF_ERROR(PrintAnalogies(*vectors, questions, json));
  if (!pairs.empty()) DSLIDE_RETURN_IF_ERROR(PrintPairs(*vectors, pairs, json));
  return {};
}

}  // namespace

int NeighboursCommand(int argc, char** argv) {
  CommandLine line("dslide neighbours MODEL [WORD...] [options]",
                   "Prints the words whose vectors are nearest to that of each WORD, by their "
                   "cosines. MODEL was trained\non words or sessions (text.format), or on text. "
                   "--questions and --pairs measure the vectors.");
  DeclareModel(&line, "[WORD...]", kMostWords);
  line.Option("top-k", "K", "neighbours of a word", "10");
  line.Flag("analogy", "of three words: what the third is to as the first is to the second");
  line.Option("questions", "FILE", "measure on analogies: lines of four words, ': section' lines");
  line.Option("pairs", "FILE", "measure on judged pairs: lines of two words and a number");
  line.Flag("json", "print a line of JSON for each word and file");
  return RunExecutable("dslide neighbours", line, argc, argv, Neighbours);
}

}  // namespace dslide
