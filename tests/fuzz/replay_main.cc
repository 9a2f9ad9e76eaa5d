// Runs targets without a fuzzer:
//
//   tests_fuzz_replay TARGET FOLDER     its seeds, the files of FOLDER/TARGET, changes of both
//   tests_fuzz_replay --corpus FOLDER   seeds and files of all targets, without changes
//
// `tests/fuzz/corpora unpack FOLDER` writes the corpora to FOLDER; a target without files is an
// error. Changes are drawn by a fixed seed, so each run has the same.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace dslide::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kChanges = 4000;  // a target

// The input is alone in its allocation, so that the address sanitizer sees a byte read too many.
bool RunAlone(const FuzzTarget& target, std::string_view input) {
  const std::unique_ptr<char[]> copy(new char[input.size()]);
  std::ranges::copy(input, copy.get());
  return target.run({copy.get(), input.size()});
}

// The files of the corpus, by name.
std::vector<fs::path> CorpusOf(const FuzzTarget& target, const std::string& folder) {
  std::vector<fs::path> files;
  const fs::path own = fs::path(folder) / target.name;
  if (fs::is_directory(own)) {
    for (const auto& entry : fs::directory_iterator(own)) files.push_back(entry.path());
  }
  if (files.empty()) {
    std::fprintf(stderr,
                 "tests_fuzz_replay: %s has no files; 'tests/fuzz/corpora unpack %s' writes them\n",
                 own.c_str(), folder.c_str());
    std::exit(1);
  }
  std::ranges::sort(files);
  return files;
}

// Seeds, then the files of the corpus.
Inputs InputsOf(const FuzzTarget& target, const std::string& folder) {
  const std::vector<fs::path> files = CorpusOf(target, folder);
  Inputs inputs = target.seeds();
  for (const fs::path& file : files) inputs.push_back(FileBytes(file.string()));
  return inputs;
}

struct Outcomes {
  int accepted = 0;
  int refused = 0;
};

Outcomes Replay(const FuzzTarget& target, const std::string& folder, int changes) {
  const Inputs inputs = InputsOf(target, folder);
  Outcomes outcomes;
  const auto run = [&](std::string_view input) {
    (RunAlone(target, input) ? outcomes.accepted : outcomes.refused)++;
  };
  for (const std::string& input : inputs) run(input);
  Random random(1);
  for (int i = 0; i < changes; ++i) {
    const std::string& input = inputs[random.Below(inputs.size())];
    const bool own = target.mutate != nullptr && random.Below(2) == 0;
    run(own ? target.mutate(input, &random) : MutateBytes(input, &random));
  }
  std::printf("%-16s inputs %zu, changes %d, accepted %d, refused %d\n",
              std::string(target.name).c_str(), inputs.size(), changes, outcomes.accepted,
              outcomes.refused);
  return outcomes;
}

int Main(std::span<const std::string> arguments) {
  const FuzzTarget* target = arguments.size() == 2 ? FindTarget(arguments[0]) : nullptr;
  if (target != nullptr) {
    const Outcomes outcomes = Replay(*target, arguments[1], kChanges);
    // Were all of one kind, the changes would not probe anything.
    return outcomes.accepted > 0 && outcomes.refused > 0 ? 0 : 1;
  }
  if (arguments.size() == 2 && arguments[0] == "--corpus") {
    for (const FuzzTarget& each : Targets()) Replay(each, arguments[1], 0);
    return 0;
  }
  std::fputs("usage: tests_fuzz_replay TARGET FOLDER | --corpus FOLDER\n", stderr);
  return 2;
}

}  // namespace
}  // namespace dslide::fuzz

int main(int argc, char** argv) {
  return dslide::fuzz::Main(std::vector<std::string>(argv + 1, argv + argc));
}
