// Where an executor's time goes, and how many rows it touched: what `dslide bench engine` reports
// beside the roofline.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dslide {

enum class Phase : uint8_t {
  kEmbed,     // input rows -> pre-activations
  kHash,      // codes of the batch's activations
  kRetrieve,  // buckets -> candidates, draws: the columns
  kForward,   // logits
  kSoftmax,   // exponentials and sums
  kBackward,  // dL/dh and the weights' gradients
  kUpdate,    // optimiser on the output rows
  kRehash,    // new codes of changed rows, tables built from them
  kInput,     // gradients and optimiser of the input rows
  kCount
};
constexpr size_t kPhases = static_cast<size_t>(Phase::kCount);
constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "embed", "hash", "retrieve", "forward", "softmax", "backward", "update", "rehash", "input"};

// Owned by one executor thread.
class EngineStats {
 public:
  // Stops the clock until the next Enter().
  void Pause() { running_ = false; }
  // Counts the time since the last Enter() for its phase, and begins `phase`.
  void Enter(Phase phase) {
    const auto now = std::chrono::steady_clock::now();
    if (running_) seconds_[current_] += std::chrono::duration<double>(now - since_).count();
    running_ = true;
    current_ = static_cast<size_t>(phase);
    since_ = now;
  }
  // Ends the current phase.
  void Leave() {
    Enter(static_cast<Phase>(current_));
    Pause();
  }
  void CountRehash(double cpu_seconds) { longest_rehash_ = std::max(longest_rehash_, cpu_seconds); }
  void CountRows(uint64_t rows) { rows_ += rows; }
  void CountProducts(uint64_t products) { products_ += products; }

  const std::array<double, kPhases>& seconds() const { return seconds_; }
  // CPU seconds of the longest rehashing after a batch: the delay of the next batch.
  double longest_rehash() const { return longest_rehash_; }
  // Summed over batches: distinct rows; products of a number with a row, of the forward and the
  // backward pass.
  uint64_t rows() const { return rows_; }
  uint64_t products() const { return products_; }

 private:
  std::array<double, kPhases> seconds_{};
  double longest_rehash_ = 0;
  uint64_t rows_ = 0;
  uint64_t products_ = 0;
  size_t current_ = 0;
  bool running_ = false;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace dslide
