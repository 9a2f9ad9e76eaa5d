// Reading a JSON request, with one line for what is wrong.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tools/dslide/serve/prediction.h"

namespace dslide {

// The value as compact JSON; bytes that are not UTF-8 are replaced.
std::string Compact(const nlohmann::json& json);
// The beginning of that, for a fault.
std::string Brief(const nlohmann::json& json);

// Reads the members of an object one by one, and keeps the first fault. Values of the wrong kind
// are faults, members that are not there are not.
class JsonObject {
 public:
  // `what` names the object in faults: "sample 3".
  JsonObject(const nlohmann::json& object, std::string what);

  const std::optional<Refusal>& fault() const { return fault_; }
  void Fault(const std::string& message);

  const nlohmann::json* Find(const char* key);
  std::optional<std::string> Text(const char* key);
  std::optional<double> Number(const char* key, double least, double most);
  std::optional<uint32_t> Whole(const char* key, uint32_t least, uint32_t most);
  std::optional<bool> Flag(const char* key);
  std::optional<std::vector<std::string>> Texts(const char* key);
  // Faults members that are not among these, so that a typing error is not ignored.
  void OnlyThese(std::initializer_list<const char*> keys);

 private:
  const nlohmann::json& object_;
  std::string what_;
  std::optional<Refusal> fault_;
};

// The body as a JSON object. Its values may be copied and printed: they are not nested deeply. A
// body with more parts or values than common/app/limits.h says is refused before any of them is
// built.
std::variant<nlohmann::json, Refusal> ParseBody(std::string_view body);

}  // namespace dslide
