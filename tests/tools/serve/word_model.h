// A model of four words.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/math/kernels.h"
#include "common/model/model_builder.h"

namespace dslide {

// Feature i means label i: "one" label 0, "two" label 1 ... `forgotten`: a stream has forgotten
// "two". With a vocabulary its concepts are the labels.
inline std::shared_ptr<const Model> WordModel(bool forgotten = false, Vocabulary names = {}) {
  const std::vector<std::string> words = {"one", "two", "three", "vier"};
  Vectorizer::Vocabulary vocabulary;
  TextConfig text;
  text.title = false;
  TermExtractor extractor(text);
  for (const std::string& word : words) {
    Record record;
    record.fields = {word};
    vocabulary.hashes.push_back(extractor.TermsOf(record)[0]);
    vocabulary.weights.push_back(1);
    vocabulary.blocks.push_back(TermBlock::kWords);
    vocabulary.names.push_back(forgotten && word == "two" ? "" : word);
  }
  Vectorizer vectorizer(text, vocabulary);
  auto preprocessor =
      names.empty()
          ? std::make_shared<const Preprocessor>(
                std::move(vectorizer), std::vector<std::string>{"eins", "zwei", "drei", "größer"})
          : std::make_shared<const Preprocessor>(std::move(vectorizer), std::move(names));
  ModelInfo info;
  info.config.model.features = info.config.model.labels = info.config.model.hidden = 4;
  info.samples = 7;
  ModelBuilder builder(info, preprocessor, BestKernels());
  for (uint32_t i = 0; i < 4; ++i) {
    std::vector<float> row(4);
    row[i] = 2;
    builder.SetInput(i, row.data());
    builder.SetNeuron(i, row.data(), 0);
  }
  return std::move(builder).Finish({});
}

}  // namespace dslide
