// The header of a .npy array (NumPy Enhancement Proposal 1):
//
//   header = "\x93NUMPY" major minor length dictionary
//
// The length has 2 bytes, from version 2 on 4; the dictionary is Python's text of 'descr',
// 'fortran_order' and 'shape'. The items follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// Whether the file begins as a .npy array does. False if it cannot be read, or is a pipe.
bool IsNpyFile(const std::string& path);

// The bytes of an array, from its beginning on. Errors name the file.
class NpySource {
 public:
  virtual ~NpySource() = default;
  // The next `size` bytes; fewer are an error.
  virtual Status Fill(void* bytes, size_t size) = 0;
  // kBadInput "file: what".
  virtual Error Bad(const std::string& what) const = 0;
};

struct NpyHeader {
  size_t bytes = 0;  // of the header itself
  std::string type;  // as it is written: "<f4"
  bool big_endian = false;
  char kind = 0;         // of NumPy's types: i, u, b, f, S, U
  size_t item_size = 0;  // bytes
  bool fortran_order = false;
  std::vector<uint64_t> shape;
  uint64_t size = 0;  // items in all, at most 2^62
};

// Errors are the source's.
Result<NpyHeader> ReadNpyHeader(NpySource* source);

// A header of version 1, at least `room` bytes long, a multiple of 64, as NumPy aligns arrays.
// `type` as "<f4"; `shape` without its parentheses, as Python writes it: "", "3," or "3, 4".
std::string NpyHeaderText(const std::string& type, const std::string& shape, size_t room = 0);

}  // namespace dslide
