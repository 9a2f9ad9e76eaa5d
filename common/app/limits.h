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

// The maximum number of labels of a model; kMostFeatures is the maximum of its features.
inline constexpr uint32_t kMostLabels = std::numeric_limits<uint32_t>::max();

// Limits over HTTP: labels of a sample, samples of a request, samples x labels of a request, and
// the length of a request unless --max-request-kb sets another. For each kServedRequestKb of that
// length: the strings, lists and objects of its JSON, and the values. Fields of a form. A server
// holds bodies and responses of kServedRequests times the longest request, and half of that for one
// address outside loopback.
inline constexpr uint32_t kMostServedLabels = 1000;
inline constexpr uint32_t kMostServedSamples = 1000;
inline constexpr uint64_t kMostServedInAll = 100'000;
inline constexpr uint32_t kServedRequestKb = 4096;
inline constexpr uint64_t kMostServedParts = 100'000;
inline constexpr uint64_t kMostServedValues = 500'000;
inline constexpr uint32_t kMostFormFields = 100;
inline constexpr uint32_t kServedRequests = 4;

// Limits of the processes that one command starts, and of cluster.memory_mb.
inline constexpr uint32_t kMostStartedServers = 1024;
inline constexpr uint32_t kMostStartedWorkers = 65536;
inline constexpr uint32_t kMostMemoryMb = 1u << 24;

}  // namespace dslide
