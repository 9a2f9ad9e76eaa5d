// What libFuzzer and AFL++'s driver call, for the one target of the executable. Before its own
// options:
//
//   fuzz_NAME --seeds DIR     writes the target's seeds as files
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_target.h"

// Weak: AFL++ has none, and does not call the mutator below.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::string_view((*argv)[1]) != "--seeds") return 0;
  const std::filesystem::path directory((*argv)[2]);
  int number = 0;
  for (const std::string& seed : dslide::fuzz::Targets().front().seeds()) {
    std::ofstream(directory / ("seed-" + std::to_string(number++)), std::ios::binary) << seed;
  }
  std::exit(0);
}

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
