// The Extreme Classification Repository's format, plain and compressed, and single lines of it.
#include "common/data/xc_reader.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>

#include "common/data/text_stream.h"
#include "common/data/xc_line.h"
#include "tests/fuzz/fuzz_target.h"

namespace dslide::xc_fuzz {
namespace {

using fuzz::Inputs;

bool Ascends(std::span<const uint32_t> ids) {
  return std::ranges::adjacent_find(ids, std::greater_equal<>()) == ids.end();
}

void CheckSample(const SampleView& sample, const XcHeader& header) {
  DSLIDE_CHECK(Ascends(sample.labels) && Ascends(sample.features));
  DSLIDE_CHECK(sample.labels.empty() || sample.labels.back() < header.num_labels);
  DSLIDE_CHECK(sample.features.empty() || sample.features.back() < header.num_features);
  DSLIDE_CHECK(sample.features.size() == sample.values.size());
  DSLIDE_CHECK(std::ranges::all_of(sample.values, [](float v) { return std::isfinite(v); }));
}

void ParseLine(std::string_view input) {
  XcLineParser parser(100, 20);
  const Result<SampleView> sample = parser.Parse(input.substr(0, input.find('\n')));
  if (fuzz::Accepted(sample)) CheckSample(*sample, {1, 100, 20});
}

bool Run(std::string_view input) {
  ParseLine(input);
  Result<TextStream> stream = TextStream::FromMemory("input", std::string(input));
  if (!fuzz::Accepted(stream)) return false;
  Result<XcReader> reader = XcReader::FromStream(*std::move(stream));
  if (!fuzz::Accepted(reader)) return false;
  for (uint64_t samples = 0;; ++samples) {
    const Result<std::optional<SampleView>> sample = reader->Next();
    if (!fuzz::Accepted(sample)) return false;
    if (!*sample) {
      DSLIDE_CHECK(samples == reader->header().num_samples);
      return true;
    }
    CheckSample(**sample, reader->header());
  }
}

Inputs Seeds() {
  return {
      "6 100 20\n1,3,19 0:0.5 7:-2 99:1e-3\n 2:1e-3 50:.25\n0\n\n12 9:3.25 10:4 11:5.125 "
      "12:123456789.123\n4,2 5:1 4:2\r\n",
      "1 10 5\n0,2 1:0.5 7:1", "2 100 20\n1 2:inf\n3 4:1\n", "1,3 0:0.5 7:-2",
      "18446744073709551615 4294967295 4294967295\n4294967294 4294967294:1\n"};
}

const fuzz::Entered kEntered({"xc", Run, Seeds});

}  // namespace
}  // namespace dslide::xc_fuzz
