#include "common/model/cells.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "common/base/random.h"
#include "common/text/records/line_blocks.h"

namespace dslide {
namespace {

constexpr uint32_t kBlock = 256;       // rows that are compared with all cells at once
constexpr uint32_t kRowsPerCell = 32;  // that k-means sees
constexpr int kRounds = 6;
constexpr uint64_t kSeed = 0x63656c6c;

// `count` different numbers below n, in random order.
std::vector<uint32_t> Draw(uint32_t count, uint32_t n, Random* random) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = 0; i < count; ++i) std::swap(order[i], order[i + random->Below(n - i)]);
  order.resize(count);
  return order;
}

class KMeans {
 public:
  KMeans(uint32_t dim, const ReadRows& rows, std::span<const float> bias, size_t threads,
         const Kernels& kernels)
      : dim_(dim), rows_(rows), bias_(bias), threads_(threads), kernels_(kernels) {}

  // The centres become these rows.
  void Begin(std::span<const uint32_t> chosen) {
    weights_.resize(chosen.size() * dim_);
    biases_.resize(chosen.size());
    for (uint32_t c = 0; c < chosen.size(); ++c) SetCentre(c, chosen[c]);
  }

  // The nearest centre of each of these rows.
  std::vector<uint32_t> Assign(std::span<const uint32_t> chosen) {
    // argmin |x - c|^2 = argmax x.c - |c|^2 / 2.
    halves_.resize(size());
    for (uint32_t c = 0; c < size(); ++c) {
      halves_[c] = (kernels_.dot(dim_, Centre(c), Centre(c)) + biases_[c] * biases_[c]) / 2;
    }
    std::vector<uint32_t> cell_of(chosen.size());
    std::atomic<size_t> next = 0;
    InParallel(threads_, [&](size_t) {
      std::vector<float> block, logits, wide;
      while (true) {
        const size_t begin = next.fetch_add(kBlock);
        if (begin >= chosen.size()) return;
        const auto part = chosen.subspan(begin, std::min<size_t>(kBlock, chosen.size() - begin));
        AssignBlock(part, &block, &logits, &wide, cell_of.data() + begin);
      }
    });
    return cell_of;
  }

  // Every centre becomes the mean of its rows. Returns how many each has.
  std::vector<uint32_t> MoveCentres(std::span<const uint32_t> chosen,
                                    const std::vector<uint32_t>& cell_of) {
    std::vector<uint32_t> sizes(size());
    std::ranges::fill(weights_, 0.0f);
    std::ranges::fill(biases_, 0.0f);
    std::vector<float> wide;
    for (size_t i = 0; i < chosen.size(); ++i) {
      const uint32_t c = cell_of[i];
      ++sizes[c];
      kernels_.axpy(dim_, 1.0f, rows_(chosen[i], chosen[i] + 1, &wide), Centre(c));
      biases_[c] += bias_[chosen[i]];
    }
    for (uint32_t c = 0; c < size(); ++c) {
      const float share = sizes[c] == 0 ? 0 : 1.0f / static_cast<float>(sizes[c]);
      for (uint32_t d = 0; d < dim_; ++d) Centre(c)[d] *= share;
      biases_[c] *= share;
    }
    return sizes;
  }

  uint32_t size() const { return static_cast<uint32_t>(biases_.size()); }
  void SetCentre(uint32_t c, uint32_t row) {
    std::vector<float> wide;
    std::copy_n(rows_(row, row + 1, &wide), dim_, Centre(c));
    biases_[c] = bias_[row];
  }
  // Removes the centres without rows.
  Cells Finish(std::vector<uint32_t> cell_of, const std::vector<uint32_t>& sizes) && {
    std::vector<uint32_t> number(size());
    uint32_t kept = 0;
    for (uint32_t c = 0; c < size(); ++c) {
      if (sizes[c] == 0) continue;
      std::copy_n(Centre(c), dim_, Centre(kept));
      biases_[kept] = biases_[c];
      number[c] = kept++;
    }
    weights_.resize(size_t{kept} * dim_);
    biases_.resize(kept);
    for (uint32_t& cell : cell_of) cell = number[cell];
    return {std::move(cell_of), std::move(weights_), std::move(biases_)};
  }

 private:
  float* Centre(uint32_t c) { return weights_.data() + size_t{c} * dim_; }

  void AssignBlock(std::span<const uint32_t> chosen, std::vector<float>* block,
                   std::vector<float>* logits, std::vector<float>* wide, uint32_t* cell_of) const {
    block->resize(size_t{kBlock} * dim_);
    logits->resize(size_t{kBlock} * size());
    for (size_t i = 0; i < chosen.size(); ++i) {
      std::copy_n(rows_(chosen[i], chosen[i] + 1, wide), dim_, block->data() + i * dim_);
    }
    kernels_.gemm_nt(chosen.size(), size(), dim_, block->data(), dim_, weights_.data(), dim_,
                     logits->data(), size(), false);
    for (size_t i = 0; i < chosen.size(); ++i) {
      const float* z = logits->data() + i * size();
      const float bias = bias_[chosen[i]];
      float most = z[0] + bias * biases_[0] - halves_[0];
      cell_of[i] = 0;
      for (uint32_t c = 1; c < size(); ++c) {
        const float at = z[c] + bias * biases_[c] - halves_[c];
        if (at <= most) continue;
        most = at;
        cell_of[i] = c;
      }
    }
  }

  const uint32_t dim_;
  const ReadRows& rows_;
  const std::span<const float> bias_;
  const size_t threads_;
  const Kernels& kernels_;
  std::vector<float> weights_;  // [C x dim]
  std::vector<float> biases_;   // [C]
  std::vector<float> halves_;   // [C] of the squared lengths
};

}  // namespace

Cells MakeCells(uint32_t neurons, uint32_t dim, const ReadRows& rows, std::span<const float> bias,
                uint32_t count, size_t threads, const Kernels& kernels) {
  count = std::clamp(count, 1u, neurons);
  Random random(kSeed);
  const auto seen =
      static_cast<uint32_t>(std::min<uint64_t>(neurons, uint64_t{kRowsPerCell} * count));
  const std::vector<uint32_t> sample = Draw(seen, neurons, &random);
  KMeans means(dim, rows, bias, threads, kernels);
  means.Begin(std::span(sample).first(count));
  for (int round = 0; round < kRounds && count > 1; ++round) {
    const std::vector<uint32_t> sizes = means.MoveCentres(sample, means.Assign(sample));
    for (uint32_t c = 0; c < count; ++c) {
      if (sizes[c] == 0) means.SetCentre(c, sample[random.Below(seen)]);
    }
  }
  std::vector<uint32_t> all(neurons);
  std::iota(all.begin(), all.end(), 0u);
  std::vector<uint32_t> cell_of = means.Assign(all);
  const std::vector<uint32_t> sizes = means.MoveCentres(all, cell_of);
  return std::move(means).Finish(std::move(cell_of), sizes);
}

}  // namespace dslide
