// Limits of what users give, of which several readers have to know: files, HTTP, Python, commands
// and the configuration. Those of data and configuration are in the headers that this one includes,
// the others below. schema/LIMITS.md has all of them as a table. Limits of messages between members
// are in schema/PROTOCOL.md, section 12.
#pragma once

#include <cstdint>
#include <limits>

#include "common/config/limits.h"
#include "common/data/dataset.h"
#include "common/data/json_depth.h"
#include "common/data/text_stream.h"

namespace dslide {

// Of a model; features have less (kMostFeatures).
inline constexpr uint32_t kMostLabels = std::numeric_limits<uint32_t>::max();

// Over HTTP: labels of a sample, samples of a request, samples x labels of a request, and its
// length, unless --max-request-kb.
inline constexpr uint32_t kMostServedLabels = 1000;
inline constexpr uint32_t kMostServedSamples = 1000;
inline constexpr uint64_t kMostServedInAll = 100'000;
inline constexpr uint32_t kServedRequestKb = 4096;

// Processes that one command starts, and MB of cluster.memory_mb.
inline constexpr uint32_t kMostStartedServers = 1024;
inline constexpr uint32_t kMostStartedWorkers = 65536;
inline constexpr uint32_t kMostMemoryMb = 1u << 24;

}  // namespace dslide
