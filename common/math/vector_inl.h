// Loads, stores and the transpose of the including file's Vec. See kernels_inl.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace dslide {
namespace {

inline Vec Load(const float* x) {
  Vec value;
  __builtin_memcpy(&value, x, sizeof(value));
  return value;
}

inline void Store(Vec value, float* x) { __builtin_memcpy(x, &value, sizeof(value)); }

inline Vec Splat(float x) { return Vec{} + x; }

// Lanes whose number has bit kStep come from the other vector, kStep lanes away.
template <int kStep, int... kLane>
inline Vec TakeLow(Vec x, Vec y, std::integer_sequence<int, kLane...>) {
  constexpr int kN = sizeof...(kLane);
  return __builtin_shufflevector(x, y, ((kLane & kStep) ? kN + kLane - kStep : kLane)...);
}

template <int kStep, int... kLane>
inline Vec TakeHigh(Vec x, Vec y, std::integer_sequence<int, kLane...>) {
  constexpr int kN = sizeof...(kLane);
  return __builtin_shufflevector(x, y, ((kLane & kStep) ? kN + kLane : kLane + kStep)...);
}

// One stage of the transpose: swaps the off-diagonal blocks of kStep x kStep.
template <int kStep>
inline void SwapBlocks(Vec (&rows)[kLanes]) {
  constexpr auto kLaneNumbers = std::make_integer_sequence<int, int{kLanes}>();
#pragma GCC unroll 16
  for (size_t i = 0; i < kLanes; ++i) {
    if (i & kStep) continue;
    const Vec low = TakeLow<kStep>(rows[i], rows[i + kStep], kLaneNumbers);
    rows[i + kStep] = TakeHigh<kStep>(rows[i], rows[i + kStep], kLaneNumbers);
    rows[i] = low;
  }
}

inline void Transpose(Vec (&rows)[kLanes]) {
  SwapBlocks<1>(rows);
  SwapBlocks<2>(rows);
  SwapBlocks<4>(rows);
  if constexpr (kLanes == 16) SwapBlocks<8>(rows);
}

}  // namespace
}  // namespace dslide
