#include "common/data/checksum.h"

#include <zlib.h>

#include <bit>
#include <span>

#include "common/data/token_samples.h"

namespace dslide {
namespace {

// The checksum covers the numbers as they are in memory.
static_assert(std::endian::native == std::endian::little);

template <typename T>
void Append(std::span<const T> values, uLong* crc) {
  *crc = crc32_z(*crc, reinterpret_cast<const Bytef*>(values.data()), values.size_bytes());
}

void AppendCount(size_t count, uLong* crc) {
  const uint64_t value = count;
  Append(std::span(&value, 1), crc);
}

}  // namespace

uint64_t Checksum(const Dataset& data) {
  if (const TokenSamples* drawn = data.drawn()) {
    uLong rules = crc32_z(0, nullptr, 0);
    uLong tokens = rules;
    const TokenRules& r = drawn->rules();
    AppendCount(r.sessions ? 1 : 0, &rules);
    AppendCount(r.window, &rules);
    Append(std::span(&r.subsample, 1), &rules);
    Append(std::span(&r.decay, 1), &rules);
    Append(std::span(drawn->tokens()), &tokens);
    return uint64_t{rules} << 32 | uint64_t{tokens};
  }
  uLong labels = crc32_z(0, nullptr, 0);
  uLong features = labels;
  for (size_t i = 0; i < data.size(); ++i) {
    const SampleView sample = data[i];
    AppendCount(sample.labels.size(), &labels);
    Append(sample.labels, &labels);
    AppendCount(sample.features.size(), &features);
    Append(sample.features, &features);
    Append(sample.values, &features);
    if (data.has_weights()) Append(std::span<const float>(&sample.weight, 1), &features);
  }
  return uint64_t{labels} << 32 | uint64_t{features};
}

}  // namespace dslide
