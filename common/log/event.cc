#include "common/log/event.h"

#include <nlohmann/json.hpp>

namespace dslide {

nlohmann::ordered_json FieldsJson(const std::vector<EventField>& fields) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const EventField& field : fields) {
    std::visit([&](const auto& value) { json[field.name] = value; }, field.value);
  }
  return json;
}

}  // namespace dslide
