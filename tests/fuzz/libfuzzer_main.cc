// What libFuzzer and AFL++ call, for the one target of the executable.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dslide::fuzz::Targets().front().run({reinterpret_cast<const char*>(data), size});
  return 0;
}

// Half of the changes are those of the target, if it has its own.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  const auto mutate = dslide::fuzz::Targets().front().mutate;
  if (mutate == nullptr || seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  dslide::Random random(seed);
  const std::string changed = mutate({reinterpret_cast<const char*>(data), size}, &random);
  if (changed.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::ranges::copy(changed, data);
  return changed.size();
}
