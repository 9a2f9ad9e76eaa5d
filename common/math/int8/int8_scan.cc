#include "common/math/int8/int8_scan.h"

#include <algorithm>
#include <cstring>

#include "common/math/int8/int8_scan_internal.h"

namespace dslide {
namespace {

constexpr float kLargest = 127.0f;

#if defined(__x86_64__)
bool CpuHasVnni() {
  return KernelsByName("avx512") != nullptr && __builtin_cpu_supports("avx512vnni");
}
#endif

const Int8Scan& ChooseBest() {
#if defined(__x86_64__)
  if (CpuHasVnni()) return kAvx512VnniInt8Scan;
  if (KernelsByName("avx2") != nullptr) return kAvx2Int8Scan;
#endif
  return kScalarInt8Scan;
}

}  // namespace

const Int8Scan& BestInt8Scan() {
  static const Int8Scan& best = ChooseBest();
  return best;
}

const Int8Scan* Int8ScanByName(std::string_view name) {
  if (name == kScalarInt8Scan.name) return &kScalarInt8Scan;
#if defined(__x86_64__)
  if (name == kAvx2Int8Scan.name && KernelsByName("avx2") != nullptr) return &kAvx2Int8Scan;
  if (name == kAvx512VnniInt8Scan.name && CpuHasVnni()) return &kAvx512VnniInt8Scan;
#endif
  return nullptr;
}

void Int8Panels::Resize(size_t count) {
  const size_t panels = (count + width_ - 1) / width_;
  values_.resize(panels * PanelBytes());
  scales_.resize(panels * width_);
}

void Int8Panels::Set(size_t begin, size_t count, const float* x, const Kernels& kernels) {
  const size_t stride = units_ * kInt8Group;
  rounded_.assign(width_ * stride, 0);
  for (size_t from = 0; from < count; from += width_) {
    const size_t vectors = std::min(width_, count - from);
    float* scales = scales_.data() + begin + from;
    for (size_t r = 0; r < width_; ++r) {
      if (r >= vectors) {
        std::fill_n(rounded_.data() + r * stride, stride, int8_t{0});
        scales[r] = 0;
        continue;
      }
      const float* vector = x + (from + r) * dim_;
      const float largest = kernels.max_abs(dim_, vector);
      scales[r] = largest / kLargest;
      kernels.to_int8(dim_, vector, largest > 0 ? kLargest / largest : 0,
                      rounded_.data() + r * stride);
    }
    int8_t* panel = values_.data() + (begin + from) / width_ * PanelBytes();
    for (size_t u = 0; u < units_; ++u) {
      for (size_t r = 0; r < width_; ++r) {
        std::memcpy(panel + (u * width_ + r) * kInt8Group,
                    rounded_.data() + r * stride + u * kInt8Group, kInt8Group);
      }
    }
  }
}

void Int8Panels::Gather(const Int8Panels& from, std::span<const uint32_t> numbers) {
  Resize(numbers.size());
  std::fill_n(values_.end() - static_cast<std::ptrdiff_t>(PanelBytes()), PanelBytes(), int8_t{0});
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t number = numbers[i];
    const int8_t* source = from.values(number / width_) + number % width_ * kInt8Group;
    int8_t* target = values_.data() + i / width_ * PanelBytes() + i % width_ * kInt8Group;
    for (size_t u = 0; u < units_; ++u) {
      std::memcpy(target + u * width_ * kInt8Group, source + u * width_ * kInt8Group, kInt8Group);
    }
    scales_[i] = from.scales_[number];
  }
  std::fill(scales_.begin() + static_cast<std::ptrdiff_t>(numbers.size()), scales_.end(), 0.0f);
}

}  // namespace dslide
