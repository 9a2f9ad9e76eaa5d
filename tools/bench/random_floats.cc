#include "common/base/random.h"
#include "tools/bench/benches.h"

namespace dslide {

std::vector<float> RandomFloats(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<float> x(size);
  for (float& value : x) value = static_cast<float>(random.Uniform() - 0.5);
  return x;
}

}  // namespace dslide
