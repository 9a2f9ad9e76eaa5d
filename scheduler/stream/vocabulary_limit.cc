#include "scheduler/stream/vocabulary_limit.h"

#include "scheduler/balance/model_size.h"

namespace dslide {

OpenVocabulary::Limit VocabularyLimit(const Config& config, uint32_t server_memory_mb,
                                      uint64_t machine_bytes) {
  // Names and counts of an id, in the scheduler and, once for each segment at work, in what turns
  // text into numbers.
  constexpr uint64_t kNameBytes = 256;
  const ClusterConfig& cluster = config.cluster;
  const uint64_t server_mb = server_memory_mb > 0 ? server_memory_mb : cluster.memory_mb;
  const uint64_t servers = server_mb > 0 ? (server_mb << 20) * cluster.servers : machine_bytes;
  const uint64_t asked = uint64_t{config.train.vocabulary_mb} << 20;
  const RowMemory row = MemoryOfRows(config);
  return {asked > 0 ? asked : servers / 4 * 3, row.input + kNameBytes, row.neuron + kNameBytes};
}

}  // namespace dslide
