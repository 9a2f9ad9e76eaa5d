// What a run makes before it is certain that it begins.
#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace dslide {

// A file, or a directory with all that is in it. It is removed at the end, unless Keep() was
// called.
class Provisional {
 public:
  explicit Provisional(std::filesystem::path path = {}) : path_(std::move(path)) {}
  Provisional(Provisional&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Provisional& operator=(Provisional&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~Provisional() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  void Keep() { path_.clear(); }

 private:
  std::filesystem::path path_;  // empty: nothing
};

}  // namespace dslide
