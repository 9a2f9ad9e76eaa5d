// A Reranker as bytes (schema/reranker.fbs).
#pragma once

#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/rank/reranker.h"

namespace dslide {

constexpr uint32_t kRerankerFormat = 1;

std::string RerankerBytes(const Reranker& reranker);

// The labels are the vocabulary's concepts. Errors (kBadInput) name `path` and `remedy`.
Result<std::shared_ptr<const Reranker>> ParseReranker(const std::string& bytes,
                                                      const Vocabulary& vocabulary,
                                                      const std::string& path,
                                                      const std::string& remedy);

}  // namespace dslide
