#include "tools/dslide/serve/json_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "common/data/text_stream.h"
#include "common/text/records/json_depth.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr size_t kBriefBytes = 200;

// The cost to build a JSON text: `parts` are strings, lists and objects, `values` are separated by
// commas.
struct JsonSize {
  uint64_t parts = 0;
  uint64_t values = 1;
};

JsonSize SizeOf(std::string_view json) {
  JsonSize size;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == ',') {
      ++size.values;
    } else if (c == '[' || c == '{') {
      ++size.parts;
    } else if (c == '"') {
      ++size.parts;
      for (++i; i < json.size() && json[i] != '"'; ++i) i += json[i] == '\\';
    }
  }
  return size;
}

std::optional<Refusal> WhyTooLarge(std::string_view body) {
  const uint64_t times = 1 + body.size() / ((uint64_t{kServedRequestKb} << 10) + 1);
  const JsonSize size = SizeOf(body);
  if (size.parts > times * kMostServedParts) {
    return Refusal{413, fmt::format("the request has {} strings, lists and objects, at most {} are "
                                    "taken; send several requests",
                                    size.parts, times * kMostServedParts)};
  }
  if (size.values > times * kMostServedValues) {
    return Refusal{413, fmt::format("the request has {} values, at most {} are taken; send several "
                                    "requests",
                                    size.values, times * kMostServedValues)};
  }
  return std::nullopt;
}

}  // namespace

std::string Compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Brief(const Json& json) {
  std::string text = Compact(json);
  if (text.size() <= kBriefBytes) return text;
  size_t end = kBriefBytes;
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

JsonObject::JsonObject(const Json& object, std::string what)
    : object_(object), what_(std::move(what)) {
  if (!object.is_object()) Fault("is not a JSON object");
}

void JsonObject::Fault(const std::string& message) {
  if (!fault_) fault_ = Refusal{400, what_ + " " + message};
}

const Json* JsonObject::Find(const char* key) {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> JsonObject::Text(const char* key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fault(fmt::format("has a \"{}\" that is not a string", key));
  return std::nullopt;
}

std::optional<double> JsonObject::Number(const char* key, double least, double most) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= least && number <= most) return number;
  }
  Fault(fmt::format("has a \"{}\" that is not a number from {} to {}", key, least, most));
  return std::nullopt;
}

std::optional<uint32_t> JsonObject::Whole(const char* key, uint32_t least, uint32_t most) {
  const std::optional<double> number = Number(key, least, most);
  if (!number) return std::nullopt;
  if (*number == std::floor(*number)) return static_cast<uint32_t>(*number);
  Fault(fmt::format("has a \"{}\" that is not a whole number", key));
  return std::nullopt;
}

std::optional<bool> JsonObject::Flag(const char* key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fault(fmt::format("has a \"{}\" that is neither true nor false", key));
  return std::nullopt;
}

std::optional<std::vector<std::string>> JsonObject::Texts(const char* key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const bool texts = value->is_array() &&
                     std::ranges::all_of(*value, [](const Json& each) { return each.is_string(); });
  if (texts) return value->get<std::vector<std::string>>();
  Fault(fmt::format("has a \"{}\" that is not a list of strings", key));
  return std::nullopt;
}

void JsonObject::OnlyThese(std::initializer_list<const char*> keys) {
  if (!object_.is_object() || fault_) return;
  const std::vector<std::string> known(keys.begin(), keys.end());
  for (const auto& [key, value] : object_.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string* nearest = Nearest(key, known);
    Fault(fmt::format("has an unknown member {}; {}", Quoted(key),
                      nearest != nullptr ? fmt::format("did you mean \"{}\"?", *nearest)
                                         : fmt::format("there are {}", Joined(known, ", "))));
    return;  // there may be many more
  }
}

std::variant<Json, Refusal> ParseBody(std::string_view body) {
  if (const Status text = CheckJsonText(body); !text.ok()) {
    return Refusal{400, "the request " + text.error().message};
  }
  if (const auto refusal = WhyTooLarge(body)) return *refusal;
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return Refusal{400, body.empty() ? "the request has no body" : "the request is not JSON"};
  }
  if (!json.is_object()) return Refusal{400, "the request is not a JSON object"};
  return json;
}

}  // namespace dslide
