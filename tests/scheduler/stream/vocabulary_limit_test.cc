#include "scheduler/stream/vocabulary_limit.h"

#include <doctest/doctest.h>

#include "scheduler/balance/model_size.h"

namespace dslide::vocabulary_limit_test {
namespace {

TEST_CASE("vocabulary limit: the key, or three quarters of the servers' memory") {
  constexpr uint64_t kMb = uint64_t{1} << 20;
  Config config;
  config.train.open_vocabulary = true;
  config.cluster.servers = 4;
  ResolveConfig(kOpenFeatures, kOpenLabels, &config);
  CHECK(VocabularyLimit(config, 0, 1000 * kMb).bytes == 750 * kMb);
  CHECK(VocabularyLimit(config, 200, 1000 * kMb).bytes == 600 * kMb);
  config.cluster.memory_mb = 100;
  CHECK(VocabularyLimit(config, 0, 1000 * kMb).bytes == 300 * kMb);
  config.train.vocabulary_mb = 5;
  const OpenVocabulary::Limit limit = VocabularyLimit(config, 200, 1000 * kMb);
  CHECK(limit.bytes == 5 * kMb);
  CHECK(limit.feature_bytes > MemoryOfRows(config).input);
  CHECK(limit.label_bytes > MemoryOfRows(config).neuron);
}

}  // namespace
}  // namespace dslide::vocabulary_limit_test
