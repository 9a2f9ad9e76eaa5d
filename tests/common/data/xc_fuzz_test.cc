// Whatever the bytes: XcReader returns samples within the header's range or one line of error.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/data/text_stream.h"
#include "common/data/xc_line.h"
#include "common/data/xc_reader.h"
#include "tests/support/compress.h"

namespace dslide {
namespace {

const std::string kGoodText =
    "6 100 20\n"
    "1,3,19 0:0.5 7:-2 99:1e-3\n"
    " 2:1e-3 50:.25\n"
    "0\n"
    "\n"
    "12 9:3.25 10:4 11:5.125 12:123456789.123\n"
    "4,2 5:1 4:2\r\n";

// One random edit. The bytes that mean something to the grammar come up often.
void Mutate(Random* random, std::string* bytes) {
  constexpr std::string_view kTelling(" ,:\n\r\t-+.eE0123456789xnaif\0\xff\x1f\x8b", 31);
  const size_t at = random->Below(bytes->size() + 1);
  const size_t length = random->Below(8);
  const char byte = random->Below(4) == 0 ? static_cast<char>(random->Below(256))
                                          : kTelling[random->Below(kTelling.size())];
  switch (random->Below(6)) {
    case 0:
      bytes->insert(at, 1, byte);
      break;
    case 1:
      bytes->insert(at, 3 * length, byte);
      break;
    case 2:
      bytes->erase(at, length);
      break;
    case 3:
      bytes->insert(random->Below(bytes->size() + 1), bytes->substr(at, length));
      break;
    case 4:
      bytes->resize(random->Below(16) == 0 ? at : bytes->size());
      break;
    default:
      if (at < bytes->size()) (*bytes)[at] = byte;
  }
}

bool Ascends(std::span<const uint32_t> ids) {
  return std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
}

bool IsSound(const SampleView& sample, const XcHeader& header) {
  return Ascends(sample.labels) && Ascends(sample.features) &&
         (sample.labels.empty() || sample.labels.back() < header.num_labels) &&
         (sample.features.empty() || sample.features.back() < header.num_features) &&
         sample.features.size() == sample.values.size() &&
         std::all_of(sample.values.begin(), sample.values.end(),
                     [](float value) { return std::isfinite(value); });
}

bool IsSound(const Error& error) {
  return error.kind == ErrorKind::kBadInput && error.message.starts_with("mem:") &&
         error.message.size() < 300 &&
         std::all_of(error.message.begin(), error.message.end(),
                     [](char c) { return c >= 0x20 && c < 0x7f; });
}

enum class Outcome { kRead, kError, kBug };

Outcome ReadText(std::string bytes) {
  auto stream = TextStream::FromMemory("mem", std::move(bytes));
  if (!stream.ok()) return IsSound(stream.error()) ? Outcome::kError : Outcome::kBug;
  auto reader = XcReader::FromStream(*std::move(stream));
  if (!reader.ok()) return IsSound(reader.error()) ? Outcome::kError : Outcome::kBug;
  const XcHeader header = reader->header();
  for (uint64_t samples = 0;; ++samples) {
    auto sample = reader->Next();
    if (!sample.ok()) return IsSound(sample.error()) ? Outcome::kError : Outcome::kBug;
    if (!sample->has_value()) {
      return samples == header.num_samples ? Outcome::kRead : Outcome::kBug;
    }
    if (!IsSound(**sample, header)) return Outcome::kBug;
  }
}

// Reads `iterations` mutations of `bytes`, each the result of 1 to 4 edits.
void Fuzz(const std::string& bytes, int iterations, uint64_t seed) {
  REQUIRE(ReadText(bytes) == Outcome::kRead);
  Random random(seed);
  int read = 0;
  for (int i = 0; i < iterations; ++i) {
    std::string mutated = bytes;
    for (uint64_t edits = 1 + random.Below(4); edits > 0; --edits) Mutate(&random, &mutated);
    CAPTURE(i);
    const Outcome outcome = ReadText(mutated);
    REQUIRE(outcome != Outcome::kBug);
    read += outcome == Outcome::kRead ? 1 : 0;
  }
  // Were it all of one kind, the mutations would not probe anything.
  CHECK(read > iterations / 1000);
  CHECK(read < iterations / 2);
}

}  // namespace

TEST_CASE("mutated plain files do no harm") { Fuzz(kGoodText, 20000, 1); }

// The line is alone in its allocation, so that the address sanitizer sees a byte read too many.
TEST_CASE("mutated lines are not overrun") {
  Random random(4);
  XcLineParser parser(100, 20);
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string mutated = "1,3,19 0:0.5 7:-2 99:1e-3";
    for (uint64_t edits = 1 + random.Below(4); edits > 0; --edits) Mutate(&random, &mutated);
    const std::vector<char> line(mutated.begin(), mutated.end());
    auto sample = parser.Parse({line.data(), line.size()});
    CAPTURE(mutated);
    REQUIRE((!sample.ok() || IsSound(*sample, XcHeader{1, 100, 20})));
    parsed += sample.ok() ? 1 : 0;
  }
  CHECK(parsed > 1000);
  CHECK(parsed < 19000);
}

TEST_CASE("mutated gzip files do no harm") { Fuzz(Gzip(kGoodText), 5000, 2); }

TEST_CASE("mutated zstd files do no harm") { Fuzz(Zstd(kGoodText), 5000, 3); }

}  // namespace dslide
