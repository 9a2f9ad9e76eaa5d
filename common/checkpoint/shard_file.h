// A file of a shard, as manifests list it and servers tell of it.
#pragma once

#include <cstdint>
#include <string>

namespace dslide {

struct ShardFile {
  std::string name;  // within the shard
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // XXH3, 64 bits
  bool operator==(const ShardFile&) const = default;
};

}  // namespace dslide
