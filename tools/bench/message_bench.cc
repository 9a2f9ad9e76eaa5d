// Encoding and decoding the messages of one batch. Bytes are those on the wire.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/wire/messages.h"
#include "tools/bench/benches.h"

namespace dslide {
namespace {

constexpr uint32_t kSamples = 256;
constexpr uint32_t kMatrixDim = 128;
constexpr uint32_t kIds = 670'091;

SparseRows RandomRows(uint32_t ids_a_row) {
  Random random(1);
  SparseRows rows;
  for (uint32_t i = 0; i < kSamples; ++i) {
    for (uint32_t j = 0; j < ids_a_row; ++j) {
      rows.ids.push_back(static_cast<uint32_t>(random.Below(kIds)));
    }
    rows.EndRow();
  }
  return rows;
}

Matrix RandomMatrix() {
  Matrix matrix(kSamples, kMatrixDim);
  matrix.data = RandomFloats(matrix.data.size(), 2);
  return matrix;
}

// Like activations and their gradient after a ReLU: half of the elements are 0.
Matrix HalfZeroMatrix() {
  Matrix matrix = RandomMatrix();
  for (float& x : matrix.data) x = std::max(x, 0.0f);
  return matrix;
}

std::vector<Body> Bodies() {
  SparseRows features = RandomRows(75);
  features.values = RandomFloats(features.ids.size(), 3);
  const std::vector<float> numbers = RandomFloats(kSamples, 4);
  const std::vector<uint32_t> counts(kSamples, 5);
  return {EmbedRequest{{}, true, std::move(features)},
          ActiveQuery{{}, HalfZeroMatrix(), RandomRows(5), counts, 0},
          ActiveReply{numbers, numbers, numbers, counts, {}, 7000, {}},
          GradientPush{{}, numbers},
          GradientReply{RandomMatrix()},
          EmbedPush{{}, HalfZeroMatrix()}};
}

void EncodeBody(benchmark::State& state, const Body& body, WirePrecision precision) {
  const Message message = {{}, body};
  size_t bytes = 0;
  for (auto _ : state) bytes += Encode(message, precision).size();
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.SetItemsProcessed(state.iterations());
}

void DecodeBody(benchmark::State& state, const Body& body, WirePrecision precision) {
  const Bytes bytes = Encode({{}, body}, precision);
  for (auto _ : state) {
    const Result<Message> message = Decode(bytes);
    DSLIDE_CHECK(message.ok());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
  state.SetItemsProcessed(state.iterations());
}

}  // namespace

void RegisterMessageBenches() {
  constexpr std::pair<const char*, WirePrecision> kPrecisions[] = {{"bf16", WirePrecision::kBf16},
                                                                   {"int8", WirePrecision::kInt8}};
  for (const Body& body : Bodies()) {
    for (const auto& [precision_name, precision] : kPrecisions) {
      const std::string name = fmt::format("{}/{}", BodyName(body), precision_name);
      benchmark::RegisterBenchmark(("Encode/" + name).c_str(), EncodeBody, body, precision);
      benchmark::RegisterBenchmark(("Decode/" + name).c_str(), DecodeBody, body, precision);
    }
  }
}

}  // namespace dslide
