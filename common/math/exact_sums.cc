#include "common/math/exact_sums.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace dslide {
namespace {

// Doubles in [2^14, 2^15) have steps of 2^-38: a term that is added to this one is rounded to them,
// and the bits of the sum count the steps. (SSE2 and AVX2 cannot convert to 64-bit integers.)
constexpr double kShift = 0x1.8p14;
constexpr auto kShiftBits = std::bit_cast<uint64_t>(kShift);
constexpr int kMantissaBits = 52;

// Whether the two highest bits of each number that went into `mixed` by Mix() were the same.
constexpr uint64_t Mix(uint64_t sum) { return sum ^ (sum << 1); }
constexpr bool AllInRange(uint64_t mixed) { return mixed >> 63 == 0; }

constexpr int kDigitBits = 32;
constexpr float kExponentLimit = 0x1p20f;

}  // namespace

bool MoveToFixed(size_t n, float* terms, int64_t* sums) {
  uint64_t mixed = 0, changed = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint64_t>(double{terms[i]} + kShift);
    const uint64_t sum = static_cast<uint64_t>(sums[i]) + (bits - kShiftBits);
    changed |= bits ^ kShiftBits;  // sign and exponent too if the term is out of range
    mixed |= Mix(sum);
    sums[i] = static_cast<int64_t>(sum);
    terms[i] = 0;
  }
  return changed >> kMantissaBits == 0 && AllInRange(mixed);
}

bool AddFixed(size_t n, const int64_t* parts, int64_t* sums) {
  uint64_t mixed = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t sum = static_cast<uint64_t>(sums[i]) + static_cast<uint64_t>(parts[i]);
    mixed |= Mix(sum);
    sums[i] = static_cast<int64_t>(sum);
  }
  return AllInRange(mixed);
}

void ExpSum::Add(float max, float sum) {
  if (max == -std::numeric_limits<float>::infinity() || sum == 0) return;
  if (!(std::abs(max) < kExponentLimit) || !std::isfinite(sum)) {
    place = kNotFinite;
    return;
  }
  // sum * exp(max) = factor * 2^exponent
  const double binary = double{max} * std::numbers::log2e;
  const auto exponent = static_cast<int>(std::floor(binary));
  const double factor = double{sum} * std::exp2(binary - exponent);
  ExpSum term;
  term.place = (exponent + std::ilogb(factor)) >> 5;
  static_assert(kDigitBits == 1 << 5);
  const double digits = std::ldexp(factor, exponent - kDigitBits * term.place);  // in [1, 2^32)
  term.high = static_cast<uint64_t>(digits);
  term.low = static_cast<uint64_t>((digits - std::floor(digits)) * 0x1p32);
  Add(term);
}

void ExpSum::Add(const ExpSum& other) {
  if (other.place == kEmpty) return;
  if (other.place > place) {
    low = place != kEmpty && other.place == place + 1 ? high : 0;
    high = 0;
    place = other.place;
  }
  if (other.place == place) {
    high += other.high;
    low += other.low;
  } else if (other.place == place - 1) {
    low += other.high;
  }
}

float ExpSum::Log() const {
  if (place == kEmpty) return -std::numeric_limits<float>::infinity();
  if (place == kNotFinite) return std::numeric_limits<float>::quiet_NaN();
  const double digits = static_cast<double>(high) + static_cast<double>(low) * 0x1p-32;
  return static_cast<float>(double{kDigitBits} * place * std::numbers::ln2 + std::log(digits));
}

}  // namespace dslide
