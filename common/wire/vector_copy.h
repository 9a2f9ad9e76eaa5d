// The elements of a vector of a verified FlatBuffer.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstring>
#include <vector>

namespace dslide {

// Of scalars; an absent vector is an empty one. By bytes: a verifier lets elements of 8 bytes pass
// that are aligned to 4.
template <typename T>
std::vector<T> CopyOf(const flatbuffers::Vector<T>* stored) {
  if (stored == nullptr || stored->size() == 0) return {};
  std::vector<T> values(stored->size());
  std::memcpy(values.data(), stored->Data(), values.size() * sizeof(T));
  return values;
}

}  // namespace dslide
