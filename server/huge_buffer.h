// Large zero-filled arrays, in huge pages where the system offers them: a random row of a big table
// then costs one TLB entry in 512.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace dslide {

// An array of T (trivial types only), zero at first, 4 KiB aligned. Movable. Pages are backed on
// first touch.
template <typename T>
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(size_t size) : size_(size) {
    if (size == 0) return;
    void* memory = mmap(nullptr, size * sizeof(T), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    constexpr size_t kWorthIt = size_t{8} << 20;
    if (size * sizeof(T) >= kWorthIt) madvise(memory, size * sizeof(T), MADV_HUGEPAGE);
#endif
    data_ = static_cast<T*>(memory);
  }
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

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dslide
