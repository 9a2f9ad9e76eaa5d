// Arrays and lengths for the tests of kernels: every variant, over lengths x misalignments, with
// guards around what is written.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <vector>

#include "common/base/random.h"
#include "common/math/kernels.h"
#include "tests/support/floats.h"

namespace dslide {

inline std::vector<const Kernels*> AvailableKernels() {
  std::vector<const Kernels*> available;
  for (const char* name : {"scalar", "avx2", "avx512"}) {
    if (const Kernels* kernels = KernelsByName(name)) available.push_back(kernels);
  }
  return available;
}

// Lengths that cross every vector and unrolling boundary, and some large ones.
inline std::vector<size_t> Lengths() {
  std::vector<size_t> lengths = {127, 128, 129, 1000, 4099};
  for (size_t n = 0; n <= 70; ++n) lengths.push_back(n);
  return lengths;
}

inline float ToFloat(float x) { return x; }
inline float ToFloat(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }

// A bfloat16 below or at x in magnitude, up to the rounding of x to float.
inline uint16_t Truncated(double x) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16);
}

// `size` elements at `offset` elements from wherever the allocator put the vector, with guards
// around them: nothing may be written there.
template <typename T>
class ArrayOf {
 public:
  ArrayOf(size_t size, size_t offset) : memory_(offset + size + kGuards, kGuard), offset_(offset) {}

  ArrayOf(size_t size, size_t offset, Random* random, double low, double high)
      : ArrayOf(size, offset) {
    for (size_t i = 0; i < size; ++i) {
      data()[i] = Element(low + (high - low) * random->Uniform());
    }
  }

  T* data() { return memory_.data() + offset_; }
  const T* data() const { return memory_.data() + offset_; }
  T operator[](size_t i) const { return memory_[offset_ + i]; }
  size_t size() const { return memory_.size() - offset_ - kGuards; }

  bool GuardsIntact() const {
    const auto is_guard = [](T x) { return x == kGuard; };
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<ptrdiff_t>(offset_),
                       is_guard) &&
           std::all_of(memory_.end() - kGuards, memory_.end(), is_guard);
  }

 private:
  static T Element(double x) {
    if constexpr (std::is_same_v<T, uint16_t>) return Truncated(x);
    return static_cast<T>(x);
  }

  static constexpr T kGuard = static_cast<T>(12345);
  static constexpr ptrdiff_t kGuards = 16;

  std::vector<T> memory_;
  size_t offset_;
};
using Array = ArrayOf<float>;
using HalfArray = ArrayOf<uint16_t>;  // bfloat16

inline bool Near(double actual, double expected, double tolerance) {
  return std::abs(actual - expected) <= tolerance;
}

struct AdamReference {
  double w, m, v;
};

inline AdamReference ExactAdam(const AdamStep& step, double g, double w, double m, double v) {
  const double b1 = step.beta1;
  const double b2 = step.beta2;
  m = b1 * m + (1 - b1) * g;
  v = b2 * v + (1 - b2) * g * g;
  return {w - double{step.step_size} * m / (std::sqrt(v) + double{step.epsilon}), m, v};
}

// Calls f(kernels, n, offset) for every variant, length and misalignment.
template <typename F>
void ForAllLengths(const F& f) {
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    for (size_t n : Lengths()) {
      CAPTURE(n);
      for (size_t offset : {0, 1, 3, 7, 13}) f(*kernels, n, offset);
    }
  }
}

}  // namespace dslide
