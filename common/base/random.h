// Counter-based random numbers: every draw is a pure function of (seed, stream, counter), so that a
// seed reproduces a run, whichever process draws, on any machine and in any order.
//
// The mixing function is the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable
// pseudorandom number generators", OOPSLA 2014), whose output passes BigCrush.
#pragma once

#include <cmath>
#include <cstdint>

namespace dslide {

__extension__ typedef unsigned __int128 Uint128;

inline uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A seed for a sub-stream: draws from different (seed, stream) pairs are independent.
inline uint64_t SubSeed(uint64_t seed, uint64_t stream) { return Mix64(Mix64(seed) ^ stream); }

// A sequence of draws. Copyable; the whole state is (seed, counter), which checkpoints store.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t counter = 0) : seed_(seed), counter_(counter) {}

  uint64_t Next() { return Mix64(seed_ + 0x9e3779b97f4a7c15u * counter_++); }

  // Uniform in [0, bound). REQUIRES bound > 0. Bias below 2^-32 for bounds up to 2^32.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<Uint128>(Next()) * bound) >> 64);
  }

  // Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // Normal(0, 1) by the Box-Muller transform; two draws per value.
  double Normal() {
    const double u = 1.0 - Uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * Uniform());
  }

 private:
  uint64_t seed_;
  uint64_t counter_;
};

}  // namespace dslide
