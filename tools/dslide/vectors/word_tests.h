// What word vectors are measured by: analogies, and pairs of words that people have judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "tools/dslide/vectors/word_vectors.h"

namespace dslide {

// Of the questions whose four words the model has.
struct AnalogyScore {
  std::string section;
  uint64_t asked = 0;
  uint64_t right = 0;  // the fourth word is the nearest to b - a + c but for a, b and c
};

struct AnalogyResult {
  std::vector<AnalogyScore> sections;  // in the file's order
  uint64_t left_out = 0;               // questions with words that the model lacks
};

// A file of questions as that of word2vec: a line of four words, a b c d, and ": name" where a
// section begins. Errors (kBadInput) name the file and the line.
Result<AnalogyResult> AskAnalogies(const WordVectors& vectors, const std::string& path);

struct SimilarityResult {
  uint64_t pairs = 0;
  uint64_t left_out = 0;  // with words that the model lacks, or whose vectors are no numbers
  double spearman = 0;    // rank correlation of cosines and judgements; equal ones share ranks
};

// A file of pairs as WordSim-353: a line of two words and a number, between blanks or tabs; #
// begins a comment. Errors as above.
Result<SimilarityResult> ComparePairs(const WordVectors& vectors, const std::string& path);

// Of two lists of one length; 0 if one of them is constant. REQUIRES finite values.
double Spearman(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace dslide
