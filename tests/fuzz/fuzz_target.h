// A decoder and what it is tried with: one target a file, NAME_fuzz.cc.
//
// The same target is an executable of libFuzzer or AFL++ (fuzz_NAME, preset `fuzz`), and part of
// tests_fuzz_replay, which runs its seeds, its corpus and changes of both in ctest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/random.h"

namespace dslide::fuzz {

using Inputs = std::vector<std::string>;

struct FuzzTarget {
  // Also the name of its corpus: tests/fuzz/corpus/NAME.tar.zst, and NAME/ for regression cases.
  std::string_view name;
  // Decodes an input, uses what comes out as the product does, and checks (DSLIDE_CHECK) what the
  // decoder promises. Whether the input was accepted. Equal inputs take the same way.
  bool (*run)(std::string_view input);
  // Inputs made by the product's own encoders, and texts that people may write.
  Inputs (*seeds)();
  // Changes an input that has a structure of its own; null: bytes are changed.
  std::string (*mutate)(std::string_view input, Random* random) = nullptr;
};

// In the order of their names.
const std::vector<FuzzTarget>& Targets();
const FuzzTarget* FindTarget(std::string_view name);

// Enters a target; one static object in each target's file.
class Entered {
 public:
  explicit Entered(const FuzzTarget& target);
};

// Changes some bytes: what means something to text formats and lengths more often than others.
std::string MutateBytes(std::string_view input, Random* random);

// Checks that an error is one line, of bounded length, that a terminal can show, and that it blames
// the input.
void CheckError(const Error& error);
template <typename T>
bool Accepted(const T& result) {
  if (!result.ok()) CheckError(result.error());
  return result.ok();
}

// Writes a file that only this process uses: the same path for equal names. Its directory goes when
// the process ends.
std::string InputFile(std::string_view bytes, const std::string& name = "input");
// The directory of these files.
const std::string& InputDirectory();
// What a file holds that a writer of the product has just written.
std::string FileBytes(const std::string& path);

}  // namespace dslide::fuzz
