// Arrays of a NumPy archive: a ZIP file of .npy files (npy_header.h), which are
// read from their beginnings to their ends, several at once, in little memory. libzip appears
// behind this file and npz_archive_writer.h only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// Whether the file begins as a ZIP archive does. False if it cannot be read.
bool IsZipFile(const std::string& path);

class NpzArchive;

// One array, little-endian. Errors (kBadInput) name the archive and the array.
class NpzArray {
 public:
  NpzArray(NpzArray&&) noexcept;
  ~NpzArray();

  uint64_t size() const { return size_; }  // items in all
  bool is_whole() const { return kind_ == 'i' || kind_ == 'u' || kind_ == 'b'; }

  // The next items, at most `count` of them, of an array of whole numbers or of any numbers. Fewer
  // only at the end, where the archive's checksum is checked.
  Status ReadWhole(size_t count, std::vector<int64_t>* items);
  Status ReadNumbers(size_t count, std::vector<double>* items);
  // The whole of an array that holds one string.
  Result<std::string> ReadString();

  // kBadInput "archive: array: what".
  Error Bad(const std::string& what) const;

 private:
  friend class NpzArchive;
  class Member;
  explicit NpzArray(std::unique_ptr<Member> member);

  Status ParseHeader();
  // Up to `count` items as bytes_.
  Result<size_t> ReadItems(size_t count);
  template <typename T>
  T ItemAs(size_t i) const;

  std::unique_ptr<Member> member_;
  char kind_ = 0;         // of NumPy's types: i, u, b, f, S, U
  size_t item_size_ = 0;  // bytes
  uint64_t size_ = 0;
  uint64_t read_ = 0;  // items
  std::vector<char> bytes_;
};

class NpzArchive {
 public:
  static Result<NpzArchive> Open(const std::string& path);
  NpzArchive(NpzArchive&&) noexcept;
  ~NpzArchive();

  // The array NAME.npy. The archive must outlive it.
  Result<NpzArray> Array(const std::string& name) const;

 private:
  struct Handle;
  explicit NpzArchive(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

}  // namespace dslide
