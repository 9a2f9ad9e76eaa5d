// Scores of int8 rows for int8 queries: all of them, or those that are high. Chosen at run time.
//
// A vector x of H floats is kept as int8 values q and one float scale: x_p = scale * q_p, rounded
// to nearest, with scale = max |x| / 127. Queries must not be negative (activations after a ReLU),
// so that their bytes lie in 0..127: as unsigned bytes they fit the first operand of vpdpbusd, and
// pairs of their products with rows fit the 16-bit sums of vpmaddubsw.
//
//   score(i, j) = bias_j + (query_scale_i * row_scale_j) * float(sum_p query_ip * row_jp)
//
// The sum of integers is exact and the floats are combined in this order without fusing, so all
// variants give the same bits. int8_scan_scalar.cc is the specification.
//
// Layout: H is padded with zeros to `units` groups of 4 bytes. Rows lie in panels of 16, queries in
// panels of 4, so that one load brings a group of each row:
//   rows[p*16*4*units + (u*16 + r)*4 + e]    value 4u + e of row 16p + r
//   queries[t*4*4*units + (u*4 + i)*4 + e]   value 4u + e of query 4t + i
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/math/kernels.h"

namespace dslide {

constexpr size_t kInt8PanelRows = 16;
constexpr size_t kInt8PanelQueries = 4;
constexpr size_t kInt8Group = 4;  // values that lie together

inline size_t Int8Units(size_t dim) { return (dim + kInt8Group - 1) / kInt8Group; }

struct Int8Hit {
  uint32_t query;
  uint32_t row;
  float score;
};

struct Int8Scan {
  std::string_view name;  // "scalar", "avx2", "avx512vnni"

  // Writes every (query, row) with score >= thresholds[query] to `hits`, in no particular order,
  // and returns their number. `hits` has room for all pairs. scales and thresholds have one float
  // for each query of the panels, row_scales and bias for each row. A threshold of +infinity leaves
  // a query out, a bias of -infinity a row, if all thresholds are finite.
  size_t (*find)(size_t units, size_t query_panels, const int8_t* queries,
                 const float* query_scales, const float* thresholds, size_t row_panels,
                 const int8_t* rows, const float* row_scales, const float* bias, Int8Hit* hits);
  // out[i*stride + j] = score(i, j) for the first `query_count` queries and `row_count` rows.
  // Panels are whole; nothing else of `out` is touched.
  void (*score)(size_t units, size_t query_count, const int8_t* queries, const float* query_scales,
                size_t row_count, const int8_t* rows, const float* row_scales, const float* bias,
                float* out, size_t stride);
};

// The fastest variant that this CPU has. Chosen once.
const Int8Scan& BestInt8Scan();

// A variant by name; nullptr if this build or this CPU lacks it. "scalar" is always there.
const Int8Scan* Int8ScanByName(std::string_view name);

// Vectors in panels. A value other than 0 does not become 0 (Kernels::to_int8).
class Int8Panels {
 public:
  // Panels of `width` vectors of [dim] each: kInt8PanelRows or kInt8PanelQueries.
  Int8Panels(size_t width, size_t dim) : width_(width), dim_(dim), units_(Int8Units(dim)) {}

  size_t dim() const { return dim_; }
  size_t units() const { return units_; }
  // Vectors, those that fill up the last panel included.
  size_t size() const { return scales_.size(); }
  size_t panels() const { return size() / width_; }
  uint64_t MemoryBytes() const { return values_.size() + scales_.size() * sizeof(float); }
  const int8_t* values(size_t panel) const { return values_.data() + panel * PanelBytes(); }
  const float* scales(size_t panel) const { return scales_.data() + panel * width_; }
  size_t PanelBytes() const { return width_ * units_ * kInt8Group; }

  // Room for `count` vectors; those beyond the last call of Set() are undefined.
  void Resize(size_t count);
  // Vectors [begin, begin + count) become x [count x dim]; zeros fill up the last panel. REQUIRES
  // that `begin` is a multiple of the width.
  void Set(size_t begin, size_t count, const float* x, const Kernels& kernels);
  // These vectors become those of `from` with these numbers, which has the same width and dim.
  void Gather(const Int8Panels& from, std::span<const uint32_t> numbers);

 private:
  size_t width_, dim_, units_;
  std::vector<int8_t> values_;
  std::vector<float> scales_;
  std::vector<int8_t> rounded_;  // scratch: vectors one after another
};

}  // namespace dslide
