#include "common/app/config_paths.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

namespace dslide::config_paths_test {
namespace {

TEST_CASE("config paths: files are the same in every working directory") {
  const std::string here = std::filesystem::current_path().string();
  Config config;
  config.train.data = "a/../train.jsonl";
  config.train.test = "X.npz+V.npy,Y.npz,W.npy";
  config.train.label_names = "names.tsv";
  config.checkpoint.directory = "/saved";
  MakePathsAbsolute(&config);
  CHECK(config.train.data == here + "/train.jsonl");
  CHECK(config.train.test ==
        here + "/X.npz+" + here + "/V.npy," + here + "/Y.npz," + here + "/W.npy");
  CHECK(config.train.label_names == here + "/names.tsv");
  CHECK(config.checkpoint.directory == "/saved");
  const Config once = config;
  MakePathsAbsolute(&config);
  CHECK(config == once);
}

TEST_CASE("config paths: what names no file stays") {
  Config config;
  config.train.data = "-";
  const Config before = config;
  MakePathsAbsolute(&config);
  CHECK(config == before);
}

}  // namespace
}  // namespace dslide::config_paths_test
