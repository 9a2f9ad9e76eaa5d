// Messages in int8: what the rounding keeps.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/random.h"
#include "common/run/combine.h"
#include "common/wire/messages.h"
#include "common/wire/wire_arrays.h"
#include "tests/support/random_messages.h"
#include "tests/support/results.h"

namespace dslide::messages_int8_test {
namespace {

constexpr WirePrecision kInt8 = WirePrecision::kInt8;

template <typename T>
T Received(T body, WirePrecision precision = kInt8) {
  Message decoded = Ok(Decode(Encode({{}, std::move(body)}, precision)));
  return std::get<T>(decoded.body);
}

// Normal numbers whose rows differ in size by up to 1,000; `kept` of them, the others 0.
Matrix RandomMatrix(uint32_t rows, uint32_t cols, double kept, Random* random) {
  Matrix matrix(rows, cols);
  for (uint32_t i = 0; i < rows; ++i) {
    const double size = std::pow(10.0, -3 * random->Uniform());
    for (uint32_t j = 0; j < cols; ++j) {
      if (random->Uniform() < kept) matrix.row(i)[j] = static_cast<float>(random->Normal() * size);
    }
  }
  return matrix;
}

float RowMax(const Matrix& m, size_t i) {
  float largest = 0;
  for (uint32_t j = 0; j < m.cols; ++j) largest = std::max(largest, std::abs(m.row(i)[j]));
  return largest;
}

TEST_CASE("int8: the scale covers the row, and its multiples are exact") {
  Random random(1);
  for (int repeat = 0; repeat < 10000; ++repeat) {
    const auto largest = static_cast<float>(std::exp(60 * random.Normal()));
    if (!(largest > 1e-30f && largest < 1e35f)) continue;
    const float scale = Int8Scale(largest);
    REQUIRE(scale * 127 >= largest);
    REQUIRE(scale * 127 <= largest * (1 + 0x1p-14f));
    for (int q = 1; q <= 127; ++q) {
      REQUIRE(double{scale * static_cast<float>(q)} == double{scale} * q);
    }
  }
  CHECK(Int8Scale(0) == 0);
  CHECK(Int8Scale(std::numeric_limits<float>::denorm_min()) == 0x1p-126f);
  CHECK(Int8Scale(std::numeric_limits<float>::max()) == kMaxInt8Scale);
}

TEST_CASE("int8: activations are rounded to nearest, and no mask changes") {
  Random random(2);
  for (const double kept : {0.05, 0.4, 1.0}) {
    const Matrix matrix = RandomMatrix(64, 77, kept, &random);
    const Matrix hidden = Received(TopKRequest{matrix, 5, Search::kExact, {}}).hidden;
    CHECK(hidden == InFloats(Received(EmbedReply{matrix}).partial));
    for (uint32_t i = 0; i < matrix.rows; ++i) {
      const float step = RowMax(matrix, i) / 127;
      for (uint32_t j = 0; j < matrix.cols; ++j) {
        const float x = matrix.row(i)[j];
        const float y = hidden.row(i)[j];
        REQUIRE((x > 0) == (y > 0));
        REQUIRE((x < 0) == (y < 0));
        REQUIRE(std::abs(x - y) <= (std::abs(x) < step / 2 ? 1.001f : 0.505f) * step);
      }
    }
  }
}

TEST_CASE("int8: a second trip changes nothing") {
  Random random(3);
  const Matrix once = InFloats(Received(EmbedReply{RandomMatrix(50, 33, 0.6, &random)}).partial);
  CHECK(InFloats(Received(EmbedReply{once}).partial) == once);
}

TEST_CASE("int8: extreme rows stay finite, numbers that are not are refused") {
  constexpr float kHuge = std::numeric_limits<float>::max();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  Matrix matrix(4, 3);
  matrix.data = {kHuge, -kHuge, 1, kTiny, 0, -kTiny, 0, 0, 0, 1e-38f, -1e-39f, 0};
  for (const Matrix& sent : {InFloats(Received(EmbedReply{matrix}).partial),
                             InFloats(Received(GradientReply{matrix}).partial)}) {
    CHECK(sent.row(0)[0] == 127 * 0x1p120f);
    CHECK(sent.row(0)[1] == -127 * 0x1p120f);
    CHECK(sent.row(2)[0] == 0);
  }
  const Matrix sent = InFloats(Received(EmbedReply{matrix}).partial);
  CHECK((sent.row(1)[0] > 0 && sent.row(1)[1] == 0 && sent.row(1)[2] < 0));
  CHECK((sent.row(3)[0] > 0 && sent.row(3)[1] < 0));
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    matrix.data[4] = bad;
    CHECK_FALSE(Decode(Encode({{}, EmbedReply{matrix}}, kInt8)).ok());
    CHECK_FALSE(Decode(Encode({{}, GradientReply{matrix}}, kInt8)).ok());
  }
}

// Largest error of the sum over a column's first rows, in steps of the largest row.
double WorstPrefixError(const Matrix& exact, const Matrix& sent) {
  double worst = 0, largest = 0;
  for (uint32_t j = 0; j < exact.cols; ++j) {
    double error = 0;
    for (uint32_t i = 0; i < exact.rows; ++i) {
      error += double{sent.row(i)[j]} - double{exact.row(i)[j]};
      worst = std::max(worst, std::abs(error));
      largest = std::max(largest, double{RowMax(exact, i)});
    }
  }
  return worst / (largest / 127);
}

TEST_CASE("int8: sums of gradients over any first rows stay within one step") {
  Random random(4);
  for (const double kept : {0.05, 0.4, 1.0}) {
    CAPTURE(kept);
    const Matrix matrix = RandomMatrix(256, 70, kept, &random);
    const Matrix pushed = Received(EmbedPush{{}, matrix}).gradient;
    CHECK(pushed == InFloats(Received(GradientReply{matrix}).partial));
    CHECK(WorstPrefixError(matrix, pushed) < 0.51);
    for (size_t i = 0; i < matrix.data.size(); ++i) {
      if (matrix.data[i] == 0) REQUIRE(pushed.data[i] == 0);
    }
    // Rounding to nearest is a random walk instead.
    if (kept == 1.0)
      CHECK(WorstPrefixError(matrix, InFloats(Received(EmbedReply{matrix}).partial)) > 1);
  }
}

TEST_CASE("int8: a carry that a small row cannot take goes on to the next") {
  // Row 0 loses half a step of 1; rows 1 to 4 take 127 steps of 0.001 of it each.
  Matrix gradient(6, 2);
  gradient.data = {127, 0.49f, 0.127f, 0.127f, 0.127f, 0.127f, 0.127f, 0.127f, 0, 0, 127, 3};
  const Matrix sent = Received(EmbedPush{{}, gradient}).gradient;
  CHECK(sent.row(0)[1] == 0);
  double sum = 0, exact = 0;
  for (uint32_t i = 0; i < 6; ++i) sum += sent.row(i)[1], exact += gradient.row(i)[1];
  CHECK(std::abs(sum - exact) <= 0.5);
  CHECK(sent.row(4)[1] == 0);
}

LayerRows RandomRows(uint32_t rows, uint32_t cols, Random* random) {
  LayerRows dense{{}, RandomMatrix(rows, cols, 0.9, random)};
  for (uint32_t i = 0; i < rows; ++i) dense.ids.push_back(100 + 3 * i);
  return dense;
}

TEST_CASE("int8: gradients of dense layers are rounded without bias, otherwise in each batch") {
  Random random(14);
  const LayerRows dense = RandomRows(12, 33, &random);
  constexpr uint32_t kBatches = 2000;
  std::vector<double> error(dense.values.data.size());
  for (uint32_t b = 0; b < kBatches; ++b) {
    const EmbedPush push{{0, b / 8, b % 8}, Matrix(1, 33), {}, dense};
    const LayerRows sent = *Received(push).dense;
    REQUIRE(sent.ids == dense.ids);
    for (uint32_t i = 0; i < dense.values.rows; ++i) {
      const float step = Int8Scale(RowMax(dense.values, i));
      for (uint32_t j = 0; j < dense.values.cols; ++j) {
        const double off = double{sent.values.row(i)[j]} - double{dense.values.row(i)[j]};
        REQUIRE(std::abs(off) < 1.001 * step);
        error[i * dense.values.cols + j] += off / step;
      }
    }
  }
  // The error of a rounding has a standard deviation of at most half a step.
  double worst = 0, squares = 0;
  for (const double sum : error) {
    worst = std::max(worst, std::abs(sum));
    squares += sum * sum;
  }
  CHECK(worst < 5 * 0.5 * std::sqrt(kBatches));
  CHECK(std::sqrt(squares / static_cast<double>(error.size())) < 0.5 * std::sqrt(kBatches));
  CHECK(squares > 0);
}

TEST_CASE("int8: rows of dense layers are in bf16") {
  Random random(15);
  const LayerRows dense = RandomRows(12, 33, &random);
  const EmbedReply reply{Matrix(1, 33), dense};
  CHECK(*Received(reply).dense == *Received(reply, WirePrecision::kBf16).dense);
  CHECK(*Received(reply, WirePrecision::kFp32).dense == dense);
}

TEST_CASE("int8: equal messages have equal bytes, whatever was sent between them") {
  testing::RandomMessages messages(6);
  for (int repeat = 0; repeat < 20; ++repeat) {
    for (size_t kind = 0; kind < testing::RandomMessages::kKinds; ++kind) {
      const Message message = messages.Next(kind);
      const Bytes bytes = Encode(message, kInt8);
      Encode(messages.Next(Body(EmbedPush()).index()), kInt8);
      REQUIRE(Encode(message, kInt8) == bytes);
      REQUIRE(Decode(bytes).ok());
    }
  }
}

TEST_CASE("int8: a matrix travels in the smaller form") {
  Random random(7);
  for (const double kept : {0.0, 0.01, 0.4, 0.8, 0.95, 1.0}) {
    CAPTURE(kept);
    const Matrix matrix = RandomMatrix(64, 128, kept, &random);
    const size_t elements = matrix.data.size();
    const size_t sparse =
        elements / 8 + elements - static_cast<size_t>(std::ranges::count(matrix.data, 0.0f));
    const size_t bytes = Encode({{}, EmbedReply{matrix}}, kInt8).size();
    CHECK(bytes <= std::min(elements, sparse) + 64 * sizeof(float) + 200);
  }
}

TEST_CASE("int8: feature values are rounded with a scale for each row") {
  EmbedRequest request{{1, 2, 3}, true, {}};
  request.features.ids = {1, 2, 3, 9};
  request.features.values = {1.0f, 0.5f, 100.0f, -0.01f};
  request.features.offsets = {0, 2, 2, 4};
  const SparseRows sent = Received(request).features;
  CHECK(sent.ids == request.features.ids);
  CHECK(sent.offsets == request.features.offsets);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    CHECK(std::abs(sent.values[i] - request.features.values[i]) < 0.0040f);
  }
  CHECK(std::abs(sent.values[2] - 100.0f) < 0.01f);
  CHECK(sent.values[3] < 0);
}

}  // namespace
}  // namespace dslide::messages_int8_test
