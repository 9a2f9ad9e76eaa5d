// POST /predict. openapi.json describes it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tools/dslide/serve/dialect.h"
#include "tools/dslide/serve/json_request.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

// {"12": 0.5}
void ParseFeatures(const Json& features, JsonObject* object, AskedSample* sample) {
  sample->features.emplace();
  if (!features.is_object()) {
    object->Fault("has \"features\" that are not an object");
    return;
  }
  for (const auto& [key, value] : features.items()) {
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const float number = value.is_number() ? value.get<float>() : NAN;
    if (error != std::errc() || end != key.data() + key.size() || !std::isfinite(number)) {
      object->Fault(fmt::format("has features that are not numbers by feature id: {}",
                                Brief(Json{{key, value}})));
      return;
    }
    sample->features->push_back({id, number});
  }
  std::ranges::sort(*sample->features);
}

// [0.5, 0, -1]
void ParseVector(const Json& vector, JsonObject* object, AskedSample* sample) {
  if (!vector.is_array() || vector.empty()) {
    object->Fault("has a \"vector\" that is not a list of numbers");
    return;
  }
  for (const Json& value : vector) {
    const float number = value.is_number() ? value.get<float>() : NAN;
    if (!std::isfinite(number)) {
      object->Fault(fmt::format("has a vector of which value {} is not a number: {}",
                                sample->vector_length.value_or(0), Brief(value)));
      return;
    }
    AddVectorValue(number, sample);
  }
}

// The sample of an object's "title", "text", "features" or "vector".
std::variant<AskedSample, Refusal> SampleOf(JsonObject* object) {
  AskedSample sample;
  const auto title = object->Text("title"), text = object->Text("text");
  const Json* features = object->Find("features");
  const Json* vector = object->Find("vector");
  if ((features != nullptr || vector != nullptr) && (title || text)) {
    object->Fault(features != nullptr ? "has features and a text" : "has a vector and a text");
  }
  if (features != nullptr && vector != nullptr) object->Fault("has features and a vector");
  if (features != nullptr) ParseFeatures(*features, object, &sample);
  if (vector != nullptr) ParseVector(*vector, object, &sample);
  if (features == nullptr && vector == nullptr && !title && !text) {
    object->Fault("has no \"text\", no \"title\", no \"features\" and no \"vector\"");
  }
  if (object->fault()) return *object->fault();
  if (title) {
    sample.record.fields = {*title, text.value_or("")};
  } else if (text) {
    sample.record.fields = FieldsOf(*text);
  }
  return sample;
}

// One of a list: a text, or {"title": "...", "text": "..."}, {"features": {"12": 0.5}} or
// {"vector": [0.5, 0, -1]} with an "id".
std::variant<AskedSample, Refusal> ParseSample(const Json& json, const std::string& what) {
  if (json.is_string()) {
    AskedSample sample;
    sample.record.fields = FieldsOf(json.get_ref<const std::string&>());
    return sample;
  }
  JsonObject object(json, what);
  object.OnlyThese({"id", "title", "text", "features", "vector"});
  const std::string id = object.Text("id").value_or("");
  auto sample = SampleOf(&object);
  if (auto* asked = std::get_if<AskedSample>(&sample)) asked->id = id;
  return sample;
}

class Own final : public Dialect {
 public:
  std::string_view name() const override { return "predict"; }

  std::variant<PredictionRequest, Refusal> Parse(const HttpRequest& request) const override {
    const auto body = ParseBody(request.body);
    if (const auto* refusal = std::get_if<Refusal>(&body)) return *refusal;
    const Json& json = std::get<Json>(body);
    JsonObject object(json, "the request");
    object.OnlyThese({"id", "title", "text", "features", "vector", "samples", "k", "threshold",
                      "search", "allow", "deny", "exclude_own"});
    PredictionRequest asked;
    asked.id = object.Text("id").value_or("");
    asked.k = object.Whole("k", 1, kMostServedLabels).value_or(asked.k);
    asked.threshold = static_cast<float>(object.Number("threshold", 0, 1).value_or(0));
    asked.allow = object.Texts("allow");
    asked.deny = object.Texts("deny").value_or(std::vector<std::string>());
    asked.exclude_own = object.Flag("exclude_own").value_or(false);
    if (const auto search = object.Text("search")) {
      asked.search = ModelSearchByName(*search);  // auto: the server's choice, as without it
      if (!asked.search && *search != "auto") {
        object.Fault("has a \"search\" that is not auto, exact, scan or index");
      }
    }
    const Json* samples = object.Find("samples");
    if (samples != nullptr && !samples->is_array())
      object.Fault("has \"samples\" that are not a list");
    if (samples != nullptr && (json.contains("text") || json.contains("title"))) {
      object.Fault("has samples and a text");
    }
    if (samples != nullptr && json.contains("vector")) object.Fault("has samples and a vector");
    if (samples != nullptr && json.contains("features")) object.Fault("has samples and features");
    if (object.fault()) return *object.fault();
    if (samples == nullptr) {
      auto sample = SampleOf(&object);
      if (const auto* refusal = std::get_if<Refusal>(&sample)) return *refusal;
      asked.samples.push_back(std::get<AskedSample>(std::move(sample)));
      return asked;
    }
    if (samples->size() > kMostServedSamples) {
      return Refusal{413, fmt::format("the request has {} samples, at most {} are taken",
                                      samples->size(), kMostServedSamples)};
    }
    for (const Json& each : *samples) {
      auto sample = ParseSample(each, fmt::format("sample {}", asked.samples.size() + 1));
      if (const auto* refusal = std::get_if<Refusal>(&sample)) return *refusal;
      asked.samples.push_back(std::get<AskedSample>(std::move(sample)));
    }
    return asked;
  }

  HttpResponse Answer(const Model& model, const std::string& name, const PredictionRequest& request,
                      const Predictions& predictions) const override {
    fmt::memory_buffer out;
    const auto to = std::back_inserter(out);
    fmt::format_to(to, "{{\"model\":{}", Compact(name));
    if (!request.id.empty()) fmt::format_to(to, ",\"id\":{}", Compact(request.id));
    fmt::format_to(to, ",\"predictions\":[");
    for (size_t i = 0; i < predictions.size(); ++i) {
      fmt::format_to(to, "{}{{", i == 0 ? "" : ",");
      if (const std::string& id = request.samples[i].id; !id.empty()) {
        fmt::format_to(to, "\"id\":{},", Compact(id));
      }
      fmt::format_to(to, "\"labels\":[");
      const char* separator = "";
      for (const PredictedLabel& p : predictions[i]) {
        fmt::format_to(to, "{}{{\"label\":{},", separator, Compact(model.LabelName(p.label)));
        if (const auto* uris = model.label_uris(); uris != nullptr) {
          fmt::format_to(to, "\"uri\":{},", Compact((*uris)[p.label]));
        }
        fmt::format_to(to, "\"id\":{},\"probability\":{:.6g},\"score\":{:.6g}}}", p.label,
                       p.probability, p.score);
        separator = ",";
      }
      fmt::format_to(to, "]}}");
    }
    fmt::format_to(to, "]");
    if (!request.unknown_labels.empty()) {
      fmt::format_to(to, ",\"unknown_labels\":{}", Compact(Json(request.unknown_labels)));
    }
    if (request.unknown_left_out > 0) {
      fmt::format_to(to, ",\"unknown_labels_left_out\":{}", request.unknown_left_out);
    }
    fmt::format_to(to, "}}\n");
    return JsonAnswer(200, fmt::to_string(out));
  }
};

}  // namespace

HttpResponse JsonAnswer(unsigned status, std::string json) {
  return {status, "application/json", std::make_shared<const std::string>(std::move(json))};
}

HttpResponse RefusalAnswer(unsigned status, const std::string& message) {
  return JsonAnswer(status, OwnDialect().Refuse({status, message}));
}

std::string Dialect::Refuse(const Refusal& refusal) const {
  return Compact(Json{{"error", refusal.message}}) + "\n";
}

const Dialect& OwnDialect() {
  static const Own own;
  return own;
}

}  // namespace dslide
