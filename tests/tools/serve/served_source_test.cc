#include "tools/dslide/serve/served_source.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <new>

#include "common/checkpoint/stored_ranking.h"
#include "common/data/whole_file.h"
#include "common/model/ranker.h"
#include "tests/common/model/small_model.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::served_source_test {
namespace {

const SmallModel kSmall(12, 10, 70, 1);
const SmallModel kOther(12, 10, 70, 2);

TopKReply Best(const std::shared_ptr<const Model>& model) {
  Ranker ranker(model, BestKernels());
  return ranker.Rank(*ranker.Embed(SmallSamples(5, 12, 3)), {})->best;
}

TEST_CASE(
    "served source: a file that is cut, overwritten or removed does not change what is served") {
  TempDirectory directory;
  const std::string path = directory.path() + "/m.dslide";
  REQUIRE(WriteModelFile(*kSmall.Build(), path).ok());
  ServedSource source(path, {});
  const auto served = Ok(source.Load(0));
  CHECK_FALSE(source.IsToLoad(0));
  const TopKReply best = Best(kSmall.Build()), others = Best(kOther.Build());
  REQUIRE(best.ids != others.ids);
  CHECK(Best(served).ids == best.ids);

  std::filesystem::resize_file(path, 100);  // as the beginning of cp does
  CHECK(Best(served).ids == best.ids);
  CHECK(source.IsToLoad(0));
  CHECK_FALSE(source.Load(5).ok());
  CHECK_FALSE(source.IsToLoad(5 + ServedSource::kRetryMs - 1));
  CHECK(source.IsToLoad(5 + ServedSource::kRetryMs));

  REQUIRE(WriteModelFile(*kOther.Build(), path + ".new").ok());
  std::ofstream(path, std::ios::binary) << *ReadWholeFile(path + ".new");
  CHECK(Best(served).ids == best.ids);
  CHECK(source.IsToLoad(0));
  const auto newer = Ok(source.Load(0));
  CHECK(Best(newer).ids == others.ids);

  std::filesystem::remove(path);
  CHECK_FALSE(source.IsToLoad(0));
  CHECK(Best(newer).ids == others.ids);
}

TEST_CASE(
    "served source: an exception while a model is loaded is an error, and it is tried again") {
  TempDirectory directory;
  const std::string path = directory.path() + "/m.dslide";
  REQUIRE(WriteModelFile(*kSmall.Build(), path).ok());
  bool full = true;
  ServedSource source(path, {}, [&](const std::string& from, const ModelSourceOptions& options) {
    if (full) throw std::bad_alloc();
    return LoadModel(from, options);
  });
  CHECK(MessageOf(source.Load(0), ErrorKind::kFailed) ==
        path + ": cannot be loaded: std::bad_alloc");
  CHECK_FALSE(source.IsToLoad(ServedSource::kRetryMs - 1));
  CHECK(source.IsToLoad(ServedSource::kRetryMs));
  full = false;
  CHECK(source.Load(ServedSource::kRetryMs).ok());
}

// A run directory with a checkpoint that is no model.
struct StoredRun : TempDirectory {
  StoredRun() {
    std::filesystem::create_directories(std::filesystem::path(manifest).parent_path());
    std::ofstream(manifest) << "one";
  }
  const std::string manifest = path() + "/checkpoint/step-000000000001/manifest";
};

TEST_CASE("served source: another checkpoint under the same name is another model") {
  StoredRun run;
  ServedSource source(run.path(), {});
  CHECK_FALSE(source.Load(0).ok());  // no model, but seen
  CHECK_FALSE(source.IsToLoad(0));
  REQUIRE(WriteWholeFile(run.manifest, "two").ok());
  CHECK(source.IsToLoad(0));
}

TEST_CASE("served source: a ranking that comes after the last checkpoint is loaded") {
  StoredRun run;
  ServedSource source(run.path(), {});
  CHECK_FALSE(source.Load(0).ok());
  CHECK_FALSE(source.IsToLoad(0));
  for (const float usual : {0.1f, 0.2f}) {
    REQUIRE(StoreRanking(run.path() + "/checkpoint", {usual, 0.5f}).ok());
    CHECK(source.IsToLoad(0));
    CHECK_FALSE(source.Load(0).ok());
    CHECK_FALSE(source.IsToLoad(0));
  }
}

}  // namespace
}  // namespace dslide::served_source_test
