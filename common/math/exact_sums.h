// Sums that do not depend on the order of their terms: adding integers is associative.
//
// (Reproducible summation by a common grid: Demmel, Nguyen, "Fast Reproducible Floating-Point
// Summation", ARITH 2013, section 3; with a grid that follows the largest term: "Parallel
// Reproducible Summation", IEEE Trans. Computers 64(7), 2015, section 4.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace dslide {

// Fixed-point numbers: whole multiples of 2^-38. A term is from -2^13 to 2^13, a sum
// from -2^24 to 2^24. Beyond that the model has diverged.
constexpr double kFixedUnit = 0x1p-38;
constexpr int64_t kFixedSumLimit = int64_t{1} << 62;

// sums[i] += terms[i], rounded to the nearest fixed-point number (ties to even), and terms[i] = 0.
// False, and sums are unspecified, if a number leaves its range (NaN does).
[[nodiscard]] bool MoveToFixed(size_t n, float* terms, int64_t* sums);

// sums[i] += parts[i]. REQUIRES that all are in the range of sums; false if a sum leaves it.
[[nodiscard]] bool AddFixed(size_t n, const int64_t* parts, int64_t* sums);

// To the nearest float.
inline float FromFixed(int64_t number) {
  return static_cast<float>(static_cast<double>(number) * kFixedUnit);
}

// A sum of exponentials far out of a float's range: (high + low / 2^32) 2^(32 place). Terms are cut
// into digits to the base 2^32; the sum keeps those of the largest term's place and of the place
// below, so it is right to some 2^-31 of its value.
struct ExpSum {
  static constexpr int32_t kEmpty = std::numeric_limits<int32_t>::min();
  static constexpr int32_t kNotFinite = std::numeric_limits<int32_t>::max();

  int32_t place = kEmpty;
  uint64_t high = 0;  // up to 2^31 terms
  uint64_t low = 0;

  // Adds sum * exp(max). What is not finite, or |max| of 2^20 or more, makes it kNotFinite.
  void Add(float max, float sum);
  void Add(const ExpSum& other);

  // log of the sum; -inf if it is empty, NaN if it is not finite.
  float Log() const;

  bool operator==(const ExpSum&) const = default;
};

}  // namespace dslide
