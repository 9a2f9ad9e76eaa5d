// A locality-sensitive hash family: K*L hash functions over vectors of `dim` floats, packed into
// one bucket code per table.
//
// DWTA: densified winner-take-all (Chen, Shrivastava: "Densified Winner Take All (DWTA) Hashing for
// Sparse Datasets", UAI 2018). Each hash is the position of the largest of `bin` coordinates
// picked by a random permutation; a bin whose coordinates are all zero borrows the code of another
// bin found by universal hashing (of hash number and attempt). log2(bin) bits a hash.
//
// A table's code is the concatenation of its K hashes, so a table has 2^(K * bits) buckets, every
// one of them reachable if K * bin <= dim. Only then do a table's hashes look at different
// coordinates; with fewer, some combinations of winners contradict each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/config/config.h"
#include "common/config/limits.h"
#include "common/math/kernels.h"

namespace dslide {

// A bucket's number within its table.
using BucketCode = uint16_t;
constexpr BucketCode kNoCode = 0xffff;  // code of a row that is in no bucket

// Immutable after construction; any thread may call Codes().
class Dwta {
 public:
  // REQUIRES config.k > 0, bin a power of two in [2, 16], dim in [1, 65535], codes of at most
  // kMaxCodeBits, and that `kernels` outlives this.
  Dwta(const HashConfig& config, uint32_t dim, uint64_t seed, const Kernels& kernels);

  uint32_t tables() const { return tables_; }
  uint32_t bits() const { return bits_; }           // of a table's code
  uint32_t buckets() const { return 1u << bits_; }  // of one table

  // codes[i*tables() + t] is the bucket of vector i in table t. Vector i is
  // x[i*stride .. i*stride + dim).
  void Codes(size_t count, const float* x, size_t stride, BucketCode* codes) const;

 private:
  struct Scratch;

  size_t hashes() const { return size_t{k_} * tables(); }
  void Densify(size_t count, Scratch* scratch) const;
  void DensifyLane(size_t lane, uint32_t attempts, Scratch* scratch) const;
  uint8_t DenseCode(size_t hash, size_t lane, uint32_t attempts,
                    const std::vector<uint8_t>& wta) const;
  void PackCodes(size_t count, const std::vector<uint8_t>& wta, BucketCode* codes) const;

  const Kernels& kernels_;
  const uint32_t dim_;
  const uint32_t tables_;
  const uint32_t k_;
  const uint32_t bin_;
  const uint32_t bits_;
  const std::vector<uint16_t> coordinates_;  // [hashes x bin]
};

}  // namespace dslide
