// Large zero-filled arrays, in huge pages where the system offers them: random rows of a big table
// then need 512 times fewer TLB entries.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/check.h"

namespace dslide {

// An array of T (trivial types only), zero at first, 4 KiB aligned. Movable. Pages are backed on
// first touch. Throws std::bad_alloc where the system refuses the addresses, unlike operator new,
// which ends the process.
template <typename T>
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(size_t size) { Grow(size); }
  HugeBuffer(HugeBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~HugeBuffer() {
    if (data_ != nullptr) munmap(data_, size_ * sizeof(T));
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  size_t size() const { return size_; }

  // Appends zeros up to element `size`; data() may change. Pages are remapped, not copied. REQUIRES
  // size >= size().
  void Grow(size_t size) {
    DSLIDE_CHECK(size >= size_);
    if (size == size_) return;
    const size_t bytes = size * sizeof(T);
    void* memory = data_ == nullptr ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                                    : mremap(data_, size_ * sizeof(T), bytes, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    constexpr size_t kWorthIt = size_t{8} << 20;
    if (bytes >= kWorthIt) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    data_ = static_cast<T*>(memory);
    size_ = size;
  }

  // Regions of `before` elements become regions of `after`, with zeros at their ends. Takes no
  // memory beside the result. REQUIRES after >= before and size() = before * regions.
  void Spread(size_t before, size_t after, size_t regions) {
    DSLIDE_CHECK(after >= before && size_ == before * regions);
    Grow(after * regions);
    for (size_t i = regions; i-- > 1;) {
      std::memmove(data_ + i * after, data_ + i * before, before * sizeof(T));
    }
    for (size_t i = 0; i < regions; ++i) GiveBack(i * after + before, (i + 1) * after);
  }

  // Elements [begin, end) become zero, and their memory is given back to the system.
  void GiveBack(size_t begin, size_t end) {
    DSLIDE_CHECK(begin <= end && end <= size_);
    if (begin == end) return;
    const auto first = reinterpret_cast<uintptr_t>(data_ + begin);
    const auto last = reinterpret_cast<uintptr_t>(data_ + end);
    const uintptr_t first_page = (first + kPage - 1) / kPage * kPage;
    const uintptr_t last_page = last / kPage * kPage;
    if (first_page >= last_page ||
        madvise(reinterpret_cast<void*>(first_page), last_page - first_page, MADV_DONTNEED) != 0) {
      std::memset(static_cast<void*>(data_ + begin), 0, last - first);
      return;
    }
    // The first and the last page also hold elements outside the range.
    std::memset(static_cast<void*>(data_ + begin), 0, first_page - first);
    std::memset(reinterpret_cast<void*>(last_page), 0, last - last_page);
  }

 private:
  static constexpr uintptr_t kPage = 4096;

  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dslide
