// Tensors of the Open Inference Protocol, version 2: lists in the JSON of a request, flat or nested
// as the shape says, or binary data behind the JSON (the protocol's binary tensor data extension):
// little-endian elements, row by row, a text as its length in 4 bytes and its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/http/http_server.h"
#include "tools/dslide/serve/json_request.h"
#include "tools/dslide/serve/prediction.h"

namespace dslide {

// The header that says how many bytes of a body are JSON; the rest is binary data.
inline constexpr char kJsonLengthHeader[] = "Inference-Header-Content-Length";

// The two parts of a body, which must outlive them. `binary` is nullopt without the header.
struct TensorBody {
  std::string_view json;
  std::optional<std::string_view> binary;
};
std::variant<TensorBody, Refusal> SplitTensorBody(const HttpRequest& request);

// Reads one input. Each problem becomes a fault of *input.
class TensorReader {
 public:
  // Removes the input's binary data, if it has any, from the front of *binary. Both must outlive
  // the reader.
  TensorReader(JsonObject* input, std::optional<std::string_view>* binary);

  // Empty if the input lacks a shape, or its shape is not a list of sizes.
  const std::vector<uint64_t>& shape() const { return shape_; }

  // The elements, row by row: as many as the shape says. Nullopt with a fault: their type or their
  // number is another one.
  std::optional<std::vector<std::string>> Texts();  // BYTES
  std::optional<std::vector<float>> Numbers();      // FP32, finite

 private:
  void TakeBinary(std::optional<std::string_view>* binary);
  void ExpectType(std::string_view type);

  JsonObject& input_;
  std::vector<uint64_t> shape_;
  uint64_t elements_ = 0;
  const nlohmann::json* data_ = nullptr;    // null: binary, or a fault
  std::optional<std::string_view> binary_;  // the input's own
};

// Appends elements as binary data.
void AppendBinary(const std::vector<std::string>& texts, std::string* to);
void AppendBinary(std::span<const float> numbers, std::string* to);

}  // namespace dslide
