#include "tools/dslide/vectors/word_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/process.h"
#include "common/math/kernels.h"
#include "common/model/top_k.h"
#include "common/text/records/line_blocks.h"
#include "common/text/tokens.h"

namespace dslide {
namespace {

// The only token of a word as a user writes it.
std::optional<uint32_t> TokenOf(const Preprocessor& preprocessor, const std::string& word) {
  TokenBreaker breaker(preprocessor.config());
  std::optional<uint32_t> id;
  size_t tokens = 0;
  const Status read = breaker.ForEachToken(word, [&](std::string_view token) {
    id = preprocessor.TokenId(token);
    ++tokens;
  });
  return read.ok() && tokens == 1 ? id : std::nullopt;
}

void ToUnit(std::span<float> x) {
  const float length = std::sqrt(BestKernels().dot(x.size(), x.data(), x.data()));
  if (length == 0) return;
  for (float& value : x) value /= length;
}

}  // namespace

Result<WordVectors> WordVectors::Of(std::shared_ptr<const Model> model) {
  if (model->preprocessor() == nullptr) {
    return BadInput("the model was trained on numbers, whose features have no names");
  }
  if (model->preprocessor()->vectorizer().is_hashed()) {
    return BadInput("the model's text became hashes (text.hash_bits), which have no names");
  }
  return WordVectors(std::move(model));
}

WordVectors::WordVectors(std::shared_ptr<const Model> model) : model_(std::move(model)) {
  units_.resize(size_t{size()} * dim());
  BestKernels().from_bf16(units_.size(), model_->arrays().input.data(), units_.data());
  for (uint32_t id = 0; id < size(); ++id) ToUnit({units_.data() + size_t{id} * dim(), dim()});
}

const std::vector<std::string>& WordVectors::names() const {
  return model_->preprocessor()->vectorizer().vocabulary().names;
}

std::optional<uint32_t> WordVectors::Find(const std::string& word) const {
  const Preprocessor& preprocessor = *model_->preprocessor();
  if (IsOfTokens(preprocessor.config())) return TokenOf(preprocessor, word);
  const auto found = std::ranges::find(names(), word);
  if (word.empty() || found == names().end()) return std::nullopt;
  return static_cast<uint32_t>(found - names().begin());
}

Result<uint32_t> WordVectors::Get(const std::string& word) const {
  if (const auto id = Find(word)) return *id;
  return BadInput(fmt::format("{}: the model has no such word", Quoted(word)));
}

float WordVectors::Cosine(uint32_t a, uint32_t b) const {
  return BestKernels().dot(dim(), Unit(a).data(), Unit(b).data());
}

std::vector<float> WordVectors::Analogy(uint32_t a, uint32_t b, uint32_t c) const {
  std::vector<float> query(dim());
  for (uint32_t d = 0; d < dim(); ++d) query[d] = Unit(b)[d] - Unit(a)[d] + Unit(c)[d];
  return query;
}

std::vector<std::vector<Neighbour>> WordVectors::Nearest(
    std::span<const std::vector<float>> queries, uint32_t k,
    std::span<const std::vector<uint32_t>> excluded) const {
  constexpr size_t kQueries = 64;
  constexpr uint32_t kRows = 512;
  std::vector<std::vector<Neighbour>> nearest(queries.size());
  const size_t blocks = (queries.size() + kQueries - 1) / kQueries;
  const size_t threads = std::min<size_t>(blocks, CoresOfThisMachine());
  const auto answer = [&](size_t first) {
    const size_t count = std::min(kQueries, queries.size() - first);
    std::vector<float> units;
    for (size_t q = 0; q < count; ++q) {
      units.insert(units.end(), queries[first + q].begin(), queries[first + q].end());
      ToUnit({units.data() + q * dim(), dim()});
    }
    std::vector<TopKHeap> best(count, TopKHeap(k));
    std::vector<float> cosines(count * kRows);
    for (uint32_t begin = 0; begin < size(); begin += kRows) {
      const uint32_t rows = std::min(kRows, size() - begin);
      BestKernels().gemm_nt(count, rows, dim(), units.data(), dim(), Unit(begin).data(), dim(),
                            cosines.data(), rows, false);
      for (size_t q = 0; q < count; ++q) {
        for (uint32_t r = 0; r < rows; ++r) {
          const float cosine = cosines[q * rows + r];
          if (!best[q].Accepts(cosine) || names()[begin + r].empty()) continue;
          if (std::ranges::find(excluded[first + q], begin + r) != excluded[first + q].end()) {
            continue;
          }
          best[q].Offer(begin + r, cosine);
        }
      }
    }
    TopKReply reply;
    for (TopKHeap& heap : best) heap.AppendTo(&reply);
    for (size_t q = 0; q < count; ++q) {
      for (uint32_t e = reply.offsets[q]; e < reply.offsets[q + 1]; ++e) {
        nearest[first + q].push_back({reply.ids[e], reply.scores[e]});
      }
    }
  };
  InParallel(threads, [&](size_t thread) {
    for (size_t block = thread; block < blocks; block += threads) answer(block * kQueries);
  });
  return nearest;
}

}  // namespace dslide
