// The limits of users' input that several readers share: files, HTTP, Python, commands and the
// configuration. The headers included here define the limits of data and configuration.
// schema/LIMITS.md has a table of all, schema/PROTOCOL.md (section 12) the limits of messages.
#pragma once

#include <cstdint>
#include <limits>

#include "common/config/limits.h"
#include "common/data/dataset.h"
#include "common/data/text_stream.h"
#include "common/text/records/json_depth.h"

namespace dslide {

// A model has at most so many labels; kMostFeatures is the limit of its features.
inline constexpr uint32_t kMostLabels = std::numeric_limits<uint32_t>::max();

// Over HTTP: labels of a sample, samples of a request, samples x labels of a request, and its
// length, unless --max-request-kb; of its JSON, for each kServedRequestKb of it, strings, lists and
// objects, and values; fields of a form. A server holds bodies and responses of kServedRequests
// times the longest request, half of that of one address outside loopback.
inline constexpr uint32_t kMostServedLabels = 1000;
inline constexpr uint32_t kMostServedSamples = 1000;
inline constexpr uint64_t kMostServedInAll = 100'000;
inline constexpr uint32_t kServedRequestKb = 4096;
inline constexpr uint64_t kMostServedParts = 100'000;
inline constexpr uint64_t kMostServedValues = 500'000;
inline constexpr uint32_t kMostFormFields = 100;
inline constexpr uint32_t kServedRequests = 6;

// Processes that one command starts, and MB of cluster.memory_mb.
inline constexpr uint32_t kMostStartedServers = 1024;
inline constexpr uint32_t kMostStartedWorkers = 65536;
inline constexpr uint32_t kMostMemoryMb = 1u << 24;

}  // namespace dslide
