#include "tools/dslide/serve/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "common/base/plural.h"
#include "common/data/text_stream.h"
#include "common/text/records/words.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "binary data are copied as they are");

constexpr uint64_t kMaxElements = uint64_t{1} << 40;  // more than any request has
constexpr uint32_t kMaxBinaryBytes = 1u << 31;
constexpr size_t kLengthBytes = 4;

// The product of sizes, at most kMaxElements + 1.
uint64_t ElementsOf(std::span<const uint64_t> shape) {
  uint64_t elements = 1;
  for (const uint64_t size : shape) {
    if (size == 0) return 0;
    elements = elements > kMaxElements / size ? kMaxElements + 1 : elements * size;
  }
  return elements;
}

// Calls take(element) for the elements of lists that are nested as `shape` says, until it returns
// false. Returns false if take() did, or if the lists have another shape.
template <typename Take>
bool TakeNested(const Json& data, std::span<const uint64_t> shape, const Take& take) {
  if (!data.is_array() || data.size() != shape[0]) return false;
  for (const Json& each : data) {
    if (shape.size() == 1 ? !take(each) : !TakeNested(each, shape.subspan(1), take)) return false;
  }
  return true;
}

// TakeNested() that also accepts all elements in one flat list.
template <typename Take>
bool TakeElements(const Json& data, std::span<const uint64_t> shape, const Take& take) {
  const bool is_nested = data.is_array() && !data.empty() && data.front().is_array();
  const uint64_t flat[] = {ElementsOf(shape)};
  return TakeNested(data, is_nested ? shape : std::span<const uint64_t>(flat), take);
}

// The `count` texts that fill `binary`, a length before each; nullopt: they do not fill it.
std::optional<std::vector<std::string>> ParseTexts(std::string_view binary, uint64_t count) {
  std::vector<std::string> texts;
  while (!binary.empty()) {
    uint32_t length = 0;
    if (texts.size() == count || binary.size() < kLengthBytes) return std::nullopt;
    std::memcpy(&length, binary.data(), kLengthBytes);
    binary.remove_prefix(kLengthBytes);
    if (binary.size() < length) return std::nullopt;
    texts.emplace_back(binary.substr(0, length));
    binary.remove_prefix(length);
  }
  return texts;
}

}  // namespace

std::variant<TensorBody, Refusal> SplitTensorBody(const HttpRequest& request) {
  const std::string_view body = request.body;
  const std::string& header = request.Header(kJsonLengthHeader);
  if (header.empty()) return TensorBody{body, std::nullopt};
  size_t length = 0;
  const char* const end = header.data() + header.size();
  const auto [at, error] = std::from_chars(header.data(), end, length);
  if (error != std::errc() || at != end || length > body.size()) {
    return Refusal{400,
                   fmt::format("the header {} is {}, not a number of bytes up to the body's {}",
                               kJsonLengthHeader, Quoted(header), body.size())};
  }
  return TensorBody{body.substr(0, length), body.substr(length)};
}

TensorReader::TensorReader(JsonObject* input, std::optional<std::string_view>* binary)
    : input_(*input) {
  const Json* shape = input_.Find("shape");
  const bool sizes =
      shape != nullptr && shape->is_array() &&
      std::ranges::all_of(*shape, [](const Json& s) { return s.is_number_unsigned(); });
  if (sizes) shape_ = shape->get<std::vector<uint64_t>>();
  elements_ = ElementsOf(shape_);
  TakeBinary(binary);
  if (binary_) return;
  data_ = input_.Find("data");
  if (data_ == nullptr || !data_->is_array()) input_.Fault("has no \"data\"");
}

void TensorReader::TakeBinary(std::optional<std::string_view>* binary) {
  const Json* parameters = input_.Find("parameters");
  if (parameters == nullptr) return;
  JsonObject given(*parameters, "the input's \"parameters\"");
  const auto bytes = given.Whole("binary_data_size", 0, kMaxBinaryBytes);
  if (given.fault()) {
    input_.Fault("has faulty \"parameters\": " + given.fault()->message);
  } else if (bytes && input_.Find("data") != nullptr) {
    input_.Fault("has \"data\" and a \"binary_data_size\"");
  } else if (bytes && !*binary) {
    input_.Fault(
        fmt::format("has binary data, and the request has no header {}, which says where "
                    "its JSON ends; set it, or send \"data\" in the JSON",
                    kJsonLengthHeader));
  } else if (bytes && *bytes > (*binary)->size()) {
    input_.Fault(
        fmt::format("has a \"binary_data_size\" of {}, but only {} bytes are left after the "
                    "JSON",
                    *bytes, (*binary)->size()));
  } else if (bytes) {
    binary_ = (*binary)->substr(0, *bytes);
    (*binary)->remove_prefix(*bytes);
  }
}

void TensorReader::ExpectType(std::string_view type) {
  if (input_.Text("datatype").value_or("") == type) return;
  input_.Fault(fmt::format("does not have the datatype {}", type));
}

std::optional<std::vector<std::string>> TensorReader::Texts() {
  ExpectType("BYTES");
  if (input_.fault()) return std::nullopt;
  std::optional<std::vector<std::string>> texts;
  if (binary_) {
    texts = ParseTexts(*binary_, elements_);
  } else {
    texts.emplace();
    const auto take = [&](const Json& each) {
      if (each.is_string()) texts->push_back(each.get<std::string>());
      return each.is_string();
    };
    if (!TakeElements(*data_, shape_, take)) texts.reset();
  }
  if (texts && !std::ranges::all_of(*texts, [](const auto& text) { return IsUtf8(text); })) {
    input_.Fault("has a text that is not UTF-8");
    return std::nullopt;
  }
  if (texts && texts->size() == elements_) return texts;
  input_.Fault(fmt::format("has {} that are not strings of the shape [{}]",
                           binary_ ? "binary data" : "\"data\"", Joined(shape_, ", ")));
  return std::nullopt;
}

std::optional<std::vector<float>> TensorReader::Numbers() {
  ExpectType("FP32");
  if (input_.fault()) return std::nullopt;
  std::vector<float> numbers;
  bool fits = true;
  if (binary_) {
    fits = binary_->size() % sizeof(float) == 0;
    numbers.resize(binary_->size() / sizeof(float));
    if (!numbers.empty()) {
      std::memcpy(numbers.data(), binary_->data(), numbers.size() * sizeof(float));
    }
    for (const float number : numbers) fits = fits && std::isfinite(number);
  } else {
    fits = TakeElements(*data_, shape_, [&](const Json& each) {
      numbers.push_back(each.is_number() ? each.get<float>() : NAN);
      return std::isfinite(numbers.back());
    });
  }
  if (fits && numbers.size() == elements_) return numbers;
  input_.Fault(fmt::format("has {} that are not n x D numbers, as its shape says",
                           binary_ ? "binary data" : "\"data\""));
  return std::nullopt;
}

void AppendBinary(const std::vector<std::string>& texts, std::string* to) {
  for (const std::string& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    char bytes[kLengthBytes];
    std::memcpy(bytes, &length, kLengthBytes);
    to->append(bytes, kLengthBytes).append(text);
  }
}

void AppendBinary(std::span<const float> numbers, std::string* to) {
  to->append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

}  // namespace dslide
