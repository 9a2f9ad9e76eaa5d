#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/data/whole_file.h"
#include "common/model/model_file.h"
#include "tests/support/temp_directory.h"
#include "tests/tools/serve/word_model.h"
#include "tools/dslide/vectors/vector_commands.h"

namespace dslide::neighbours_command_test {
namespace {

using Json = nlohmann::json;

// The lines that the command prints, in a process of its own.
std::vector<Json> Printed(const TempDirectory& directory, std::vector<std::string> arguments) {
  const std::string path = directory.path() + "/printed";
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const bool opened = std::freopen(path.c_str(), "w", stdout) != nullptr;
    const int code = NeighboursCommand(static_cast<int>(arguments.size()), argv.data());
    std::fflush(stdout);
    _exit(opened ? code : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  std::istringstream text(*ReadWholeFile(path));
  std::vector<Json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST_CASE("neighbours: with --json every line is JSON, of words and of files") {
  const TempDirectory directory;
  const std::string model = directory.path() + "/m.dslide", pairs = directory.path() + "/pairs",
                    questions = directory.path() + "/questions";
  REQUIRE(WriteModelFile(*WordModel(), model).ok());
  std::ofstream(pairs) << "one two 3\none one 9\none five 2\n";
  std::ofstream(questions) << ": a\none one two two\n: b\none two five two\n";
  const auto lines = Printed(directory, {"neighbours", model, "two", "--top-k", "2", "--json",
                                         "--pairs", pairs, "--questions", questions});
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["word"] == "two");
  CHECK(lines[0]["neighbours"] == Json{"one", "three"});
  CHECK(lines[0]["cosines"] == Json{0.0, 0.0});
  CHECK(lines[1] == Json{{"questions", questions},
                         {"asked", 1},
                         {"right", 0},  // the answer is one of the three words
                         {"left_out", 1},
                         {"sections",
                          {{{"section", "a"}, {"asked", 1}, {"right", 0}},
                           {{"section", "b"}, {"asked", 0}, {"right", 0}}}}});
  CHECK(lines[2] ==
        Json{{"pairs", pairs}, {"compared", 2}, {"left_out", 1}, {"rank_correlation", 1.0}});
}

TEST_CASE("neighbours: with --json a word without neighbours has empty lists") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/m.dslide";
  const auto words = WordModel();
  ModelBuilder builder(words->info(), words->shared_preprocessor(), BestKernels());
  for (uint32_t i = 0; i < 4; ++i) {
    std::vector<float> row(4, 1.0f);
    builder.SetNeuron(i, row.data(), 0);
    if (i > 0) row[0] = std::nanf("");
    builder.SetInput(i, row.data());
  }
  REQUIRE(WriteModelFile(*std::move(builder).Finish({}), path).ok());
  const auto lines = Printed(directory, {"neighbours", path, "one", "--json"});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        Json{{"word", "one"}, {"neighbours", Json::array()}, {"cosines", Json::array()}});
}

}  // namespace
}  // namespace dslide::neighbours_command_test
