// The input rows of a model of words, sessions or text, by the names of their features: word
// vectors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/model/model.h"

namespace dslide {

struct Neighbour {
  uint32_t id;
  float cosine;
};

// Immutable; any number of threads may use it.
class WordVectors {
 public:
  // A model of numbers, or one whose text became hashes, has no names: kBadInput. REQUIRES that the
  // model's input has been checked (Model::Check).
  static Result<WordVectors> Of(std::shared_ptr<const Model> model);

  uint32_t size() const { return static_cast<uint32_t>(names().size()); }  // V
  uint32_t dim() const { return model_->info().input_width(); }            // H, of the first layer
  // Empty: a stream has forgotten the word, and its vector is nobody's.
  const std::vector<std::string>& names() const;
  // [H], scaled to length 1; zeros stay.
  std::span<const float> Unit(uint32_t id) const {
    return {units_.data() + size_t{id} * dim(), dim()};
  }

  // The id of a word as a user writes it; nullopt: the model lacks it.
  std::optional<uint32_t> Find(const std::string& word) const;
  // The same, or an error that names it.
  Result<uint32_t> Get(const std::string& word) const;
  float Cosine(uint32_t a, uint32_t b) const;

  // For each query [H] (not of length 1: cosines are) the k nearest, best first, without forgotten
  // words and the ids in its list of `excluded` ([queries]).
  std::vector<std::vector<Neighbour>> Nearest(
      std::span<const std::vector<float>> queries, uint32_t k,
      std::span<const std::vector<uint32_t>> excluded) const;

  // What b - a + c of the three words' units is: "a is to b as c is to it".
  std::vector<float> Analogy(uint32_t a, uint32_t b, uint32_t c) const;

 private:
  explicit WordVectors(std::shared_ptr<const Model> model);

  std::shared_ptr<const Model> model_;
  std::vector<float> units_;  // [V x H]
};

}  // namespace dslide
