#include "tools/dslide/serve/served_source.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/data/whole_file.h"
#include "common/model/ranker.h"
#include "tests/common/model/small_model.h"
#include "tests/support/temp_directory.h"

namespace dslide::served_source_test {
namespace {

const SmallModel kSmall(12, 10, 70, 1);
const SmallModel kOther(12, 10, 70, 2);

TopKReply Best(const std::shared_ptr<const Model>& model) {
  Ranker ranker(model, BestKernels());
  return ranker.Rank(ranker.Embed(SmallSamples(5, 12, 3)), {}).best;
}

TEST_CASE(
    "served source: a file that is cut, overwritten or removed does not change what is served") {
  TempDirectory directory;
  const std::string path = directory.path() + "/m.dslide";
  REQUIRE(WriteModelFile(*kSmall.Build(), path).ok());
  ServedSource source(path, {});
  const auto served = source.Load();
  REQUIRE(served.ok());
  CHECK_FALSE(source.HasChanged());
  const TopKReply best = Best(kSmall.Build()), others = Best(kOther.Build());
  REQUIRE(best.ids != others.ids);
  CHECK(Best(*served).ids == best.ids);

  std::filesystem::resize_file(path, 100);  // as the beginning of cp does
  CHECK(Best(*served).ids == best.ids);
  CHECK(source.HasChanged());
  CHECK_FALSE(source.Load().ok());
  CHECK_FALSE(source.HasChanged());

  REQUIRE(WriteModelFile(*kOther.Build(), path + ".new").ok());
  std::ofstream(path, std::ios::binary) << *ReadWholeFile(path + ".new");
  CHECK(Best(*served).ids == best.ids);
  CHECK(source.HasChanged());
  const auto newer = source.Load();
  REQUIRE(newer.ok());
  CHECK(Best(*newer).ids == others.ids);

  std::filesystem::remove(path);
  CHECK_FALSE(source.HasChanged());
  CHECK(Best(*newer).ids == others.ids);
}

}  // namespace
}  // namespace dslide::served_source_test
